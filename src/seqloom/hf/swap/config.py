"""The config of a swapped model: that of the model, with `model_type` seqloom_swap and the mixers of its layers.

    "model_type": "seqloom_swap",
    "seqloom_swap": {"base": "llama", "context": 2048, "layers": {"1": {"kind": "gated_delta", …}}}

transformers without seqloom says that it does not know this architecture, where a config of type llama would load
fresh attention in the place of the mixers.
"""

from functools import cache
from typing import Any, final

from transformers import CONFIG_MAPPING, PreTrainedConfig

from seqloom.hf.swap.families import FAMILIES

MODEL_TYPE = "seqloom_swap"


@cache
def swapped_config(base: type[PreTrainedConfig]) -> type[PreTrainedConfig]:
    """The class of the config of swapped models whose config was of class `base`."""
    return type(f"Swapped{base.__name__}", (base,), {"model_type": MODEL_TYPE, "__module__": __name__})


@final
class SwapConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers has no types for it
    """What `AutoConfig` finds for seqloom_swap: it makes the config of the class that the file names."""

    model_type = MODEL_TYPE

    @classmethod
    def from_dict(cls, config_dict: dict[str, Any], **kwargs: Any) -> Any:
        """The config of the file's values, whose model the Auto classes then find.

        ValueError where they name no model that can be swapped.
        """
        from seqloom.hf.swap.classes import register_base  # which imports this file

        swapped = config_dict.get(MODEL_TYPE)
        swapped = swapped if isinstance(swapped, dict) else {}
        base = swapped.get("base")
        if base not in FAMILIES or not isinstance(swapped.get("layers"), dict):
            raise ValueError(f"config.json of type {MODEL_TYPE} names no base of {', '.join(FAMILIES)} with its layers")
        register_base(base)
        return swapped_config(CONFIG_MAPPING[base]).from_dict(config_dict, **kwargs)

"""`generate` of transformers over states of seqloom: it makes a cache of ours, and none of keys and values."""

from abc import ABC
from typing import Any

from transformers import GenerationMixin

from seqloom.hf.cache import can_crop, state_cache
from seqloom.hf.config import SeqloomConfig
from seqloom.hf.pretrained import SeqloomPreTrainedModel


class SeqloomGeneration(SeqloomPreTrainedModel, GenerationMixin, ABC):  # type: ignore[misc]  # transformers has no types
    """A model that writes text.

    Assisted decoding, which takes tokens back, works where the mixers' states can be cropped, and is refused elsewhere.
    """

    def __init__(self, config: SeqloomConfig) -> None:
        super().__init__(config)
        self._is_stateful = not can_crop(self.model)

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """False: `generate` makes no cache of keys and values."""
        return False

    def _prepare_cache_for_generation(
        self, generation_config: Any, model_kwargs: dict[str, Any], *others: Any, **settings: Any
    ) -> None:
        """Gives `generate` a cache of ours, where none is given and it is to use one."""
        if generation_config.use_cache is False:
            return
        if generation_config.cache_implementation is not None:
            raise ValueError("leave out cache_implementation: a model of seqloom has a cache of its own")
        if model_kwargs.get("past_key_values") is None:
            model_kwargs["past_key_values"] = state_cache(self.model)
        else:
            super()._prepare_cache_for_generation(generation_config, model_kwargs, *others, **settings)

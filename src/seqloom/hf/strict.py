"""Loading in which every weight of a folder fits: transformers only reports missing ones and initializes them."""

from typing import Any

from transformers import PreTrainedModel

from seqloom.core.mixer import rebuild_buffers


class StrictlyLoaded(PreTrainedModel):  # type: ignore[misc]  # transformers has no types for it
    """A model of transformers with mixers of seqloom inside."""

    @classmethod
    def from_pretrained(cls, *args: Any, **settings: Any) -> Any:
        """As of transformers, but ValueError where a weight is missing or unknown, which transformers only reports."""
        asks_for_info = settings.pop("output_loading_info", False)
        wrapper, info = super().from_pretrained(*args, output_loading_info=True, **settings)
        for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
            if info.get(problem):
                name = sorted(map(str, info[problem]))[0]
                raise ValueError(
                    f"{args[0] if args else 'the folder'} does not fit its config.json: {problem.replace('_', ' ')}, "
                    f"first {name}; save the model again"
                )
        rebuild_buffers(wrapper)
        return (wrapper, info) if asks_for_info else wrapper

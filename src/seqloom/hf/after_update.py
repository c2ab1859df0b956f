"""What mixers change between optimizer steps, in transformers' Trainer: centroids, hash functions, random features."""

from typing import Any, final

from transformers import TrainerCallback

from seqloom.hf.pretrained import SeqloomPreTrainedModel
from seqloom.hf.swap.attention import SwappedAttention


@final
class AfterUpdate(TrainerCallback):  # type: ignore[misc]  # transformers has no types for it
    """Calls the model's `after_update` with the statistics of the step's passes, as seqloom's own training does."""

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        """Called by the Trainer after each optimizer step."""
        model = others["model"]
        if isinstance(model, SeqloomPreTrainedModel):
            model.model.after_update(state.global_step, model.statistics)
            model.statistics = {}
        for module in model.modules():
            if isinstance(module, SwappedAttention):
                module.mixer.after_update(state.global_step, module.statistics)
                module.statistics = {}

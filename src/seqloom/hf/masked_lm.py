"""An encoder of seqloom as `AutoModelForMaskedLM`."""

from typing import Any, final

from torch import Tensor
from transformers.modeling_outputs import MaskedLMOutput
from transformers.utils.generic import can_return_tuple

from seqloom.core.model_config import ModelConfig
from seqloom.hf.cache import kept_positions
from seqloom.hf.pretrained import SeqloomPreTrainedModel, refuse_outputs, require_ids

KINDS = ("encoder", "universal_encoder")


@final
class SeqloomForMaskedLM(SeqloomPreTrainedModel):
    """Predicts the token at every position from the whole row."""

    @classmethod
    def _require_kind(cls, settings: ModelConfig) -> None:
        if settings.kind not in KINDS:
            raise ValueError(f"a model of kind {settings.kind} is none of {', '.join(KINDS)}: it fills in no masks")

    @can_return_tuple  # type: ignore[untyped-decorator]  # transformers has no types for it
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> MaskedLMOutput:
        """Logits (B, T, W), and the mean loss in nats of the labels that are not -100."""
        refuse_outputs(others)
        ids = require_ids(input_ids, inputs_embeds)
        keep = kept_positions(attention_mask, ids.shape[1], padded_right=True)
        x, extras = self.model.features_with_extras(ids, keep)
        logits = self.model.logits(x, keep)
        loss = None
        if labels is not None:
            arguments = {name: value for name, value in others.items() if name == "num_items_in_batch"}
            loss = self.loss_function(logits=logits, labels=labels, vocab_size=self.config.vocab_size, **arguments)
            loss = self.with_extras(loss, extras)
        return MaskedLMOutput(loss=loss, logits=logits)

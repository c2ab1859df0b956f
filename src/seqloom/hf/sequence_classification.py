"""A classifier of seqloom as `AutoModelForSequenceClassification`."""

from typing import Any, final

from torch import Tensor, nn
from transformers.modeling_outputs import SequenceClassifierOutput
from transformers.utils.generic import can_return_tuple

from seqloom.core.model_config import ModelConfig
from seqloom.hf.cache import kept_positions
from seqloom.hf.pretrained import SeqloomPreTrainedModel, refuse_outputs, require_ids
from seqloom.models.classifier import Classifier


@final
class SeqloomForSequenceClassification(SeqloomPreTrainedModel):
    """Gives each row, of one or two texts, the logits of its label."""

    @classmethod
    def _require_kind(cls, settings: ModelConfig) -> None:
        if settings.kind != "classifier":
            raise ValueError(f"a model of kind {settings.kind} has no labels: use one of model.kind=classifier")

    @can_return_tuple  # type: ignore[untyped-decorator]  # transformers has no types for it
    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        inputs_embeds: Tensor | None = None,
        labels: Tensor | None = None,
        **others: Any,
    ) -> SequenceClassifierOutput:
        """Logits (B, L) of L labels, and the mean cross-entropy in nats; `token_type_ids` are 1 in a second text."""
        refuse_outputs(others)
        assert isinstance(self.model, Classifier)
        ids = require_ids(input_ids, inputs_embeds)
        keep = kept_positions(attention_mask, ids.shape[1], padded_right=True)
        second = token_type_ids if self.model.segment is not None else None
        logits, extras = self.model.classify(ids, keep, second)
        loss = None
        if labels is not None:
            loss = self.with_extras(nn.functional.cross_entropy(logits, labels), extras)
        return SequenceClassifierOutput(loss=loss, logits=logits)

"""The Auto classes of transformers know seqloom's models, and the wrapper that a model needs."""

from typing import Any

from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
)

from seqloom.core.arguments import describe_value
from seqloom.core.model import Model
from seqloom.hf import causal_lm, masked_lm, seq2seq_lm
from seqloom.hf.causal_lm import SeqloomForCausalLM
from seqloom.hf.config import SeqloomConfig
from seqloom.hf.masked_lm import SeqloomForMaskedLM
from seqloom.hf.pretrained import SeqloomPreTrainedModel
from seqloom.hf.seq2seq_lm import SeqloomForSeq2SeqLM
from seqloom.hf.sequence_classification import SeqloomForSequenceClassification
from seqloom.hf.swap.config import SwapConfig

WRAPPERS: dict[str, type[SeqloomPreTrainedModel]] = {
    **dict.fromkeys(causal_lm.KINDS, SeqloomForCausalLM),
    **dict.fromkeys(masked_lm.KINDS, SeqloomForMaskedLM),
    **dict.fromkeys(seq2seq_lm.KINDS, SeqloomForSeq2SeqLM),
    "classifier": SeqloomForSequenceClassification,
}
"""the wrapper of each kind of model"""


def register() -> None:
    """Registers the classes; a second time changes nothing."""
    AutoConfig.register(SeqloomConfig.model_type, SeqloomConfig, exist_ok=True)
    AutoConfig.register(SwapConfig.model_type, SwapConfig, exist_ok=True)
    AutoModelForCausalLM.register(SeqloomConfig, SeqloomForCausalLM, exist_ok=True)
    AutoModelForMaskedLM.register(SeqloomConfig, SeqloomForMaskedLM, exist_ok=True)
    AutoModelForSeq2SeqLM.register(SeqloomConfig, SeqloomForSeq2SeqLM, exist_ok=True)
    AutoModelForSequenceClassification.register(SeqloomConfig, SeqloomForSequenceClassification, exist_ok=True)


def wrap(model: Model, **settings: Any) -> SeqloomPreTrainedModel:
    """The model inside of the class of transformers for its kind; both share all weights.

    `settings` are those of a config of transformers, such as `pad_token_id`. TypeError unless it is a model of seqloom,
    ValueError for a kind without a wrapper.
    """
    if not isinstance(model, Model):
        raise TypeError(f"model is one that seqloom.decoder or seqloom.load gives, not {describe_value(model)}")
    if model.config.kind not in WRAPPERS:
        raise ValueError(f"a model of kind {model.config.kind} has no wrapper: {', '.join(WRAPPERS)} have")
    return WRAPPERS[model.config.kind].of(model, **settings)

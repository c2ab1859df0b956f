"""The models by kind: one file per kind, and one name below."""

from typing import Any, TypeAlias

from pydantic import SerializeAsAny

from seqloom.core.config import read_inside, suggestion
from seqloom.core.model_config import ModelConfig
from seqloom.models.classifier import ClassifierConfig
from seqloom.models.config import TransformerConfig
from seqloom.models.decision_config import DecisionConfig
from seqloom.models.decoder import DecoderConfig
from seqloom.models.encoder import EncoderConfig
from seqloom.models.hmm import HMMConfig
from seqloom.models.ngram.config import NgramConfig
from seqloom.models.patch_classifier import PatchClassifierConfig
from seqloom.models.regressor_config import RegressorConfig
from seqloom.models.seq2seq import Seq2SeqConfig
from seqloom.models.spalm import SpalmConfig
from seqloom.models.textcnn import TextCNNConfig
from seqloom.models.universal import UniversalConfig, UniversalEncoderConfig
from seqloom.models.universal_seq2seq import UniversalSeq2SeqConfig

AnyModel: TypeAlias = SerializeAsAny[ModelConfig]
"""a field of settings that holds those of a model of any kind"""
KINDS: dict[str, type[ModelConfig]] = {
    config.model_fields["kind"].default: config
    for config in (
        *(DecoderConfig, EncoderConfig, ClassifierConfig, Seq2SeqConfig),
        *(UniversalConfig, UniversalEncoderConfig, UniversalSeq2SeqConfig),
        *(NgramConfig, HMMConfig, TextCNNConfig, DecisionConfig, SpalmConfig, RegressorConfig, PatchClassifierConfig),
    )
}
SHARED = TransformerConfig
"""the settings that most kinds have"""


def model_config(values: Any) -> ModelConfig:
    """The settings of a model from plain values; a decoder unless they have a `kind`. ValueError for wrong ones."""
    if isinstance(values, ModelConfig):
        return values
    if not isinstance(values, dict):
        raise ValueError("a model is given by its settings, such as {kind: decoder}")
    kind = values.get("kind", "decoder")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of a model; {suggestion(str(kind), KINDS)}")
    config: ModelConfig = read_inside(KINDS[kind], values)
    return config

"""The classifiers by kind: one file per kind, and one name below."""

from typing import Annotated, Any, TypeAlias

from pydantic import Field

from seqloom.core.config import read, suggestion
from seqloom.depth.classifier import ClassifierConfig
from seqloom.depth.geometric import GeometricConfig
from seqloom.depth.learned import LearnedConfig
from seqloom.depth.multinomial import MultinomialConfig
from seqloom.depth.sequence import SequenceConfig

AnyClassifier: TypeAlias = Annotated[
    LearnedConfig | SequenceConfig | MultinomialConfig | GeometricConfig, Field(discriminator="kind")
]
KINDS: dict[str, type[ClassifierConfig]] = {
    "learned": LearnedConfig,
    "sequence": SequenceConfig,
    "multinomial": MultinomialConfig,
    "geometric": GeometricConfig,
}


def classifier_config(values: dict[str, Any]) -> ClassifierConfig:
    """The settings of a classifier from plain values. ValueError, in one line, for wrong ones."""
    kind = values.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ValueError(f"unknown kind {kind!r} of a classifier; {suggestion(str(kind), KINDS)}")
    config: ClassifierConfig = read(KINDS[kind], values)
    return config

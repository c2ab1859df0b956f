"""The settings of models that count n-grams: `model.kind=ngram`, one of several estimators."""

from typing import ClassVar, Literal, final

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.models.ngram.grams import MOST
from seqloom.models.ngram.reader import Ngram


@final
class NgramConfig(ModelConfig):
    """An estimator of the next token from the `order` - 1 tokens before it."""

    kind: Literal["ngram"] = "ngram"
    estimator: Literal["kneser_ney", "context_tree"] = Field(
        "kneser_ney",
        description="kneser_ney: interpolated modified Kneser-Ney (Chen and Goodman 1998); context_tree: a weighted "
        "mixture of all context trees (Willems et al. 1995), or one pruned tree (Bühlmann and Wyner "
        "1999)",
    )
    order: int = Field(5, ge=1, le=MOST, description="tokens of the longest n-gram, the predicted one included")
    cutoff: float = Field(
        0.0,
        ge=0,
        description="for context_tree: smallest gain, in nats, of a context over the next shorter one, below which "
        "it is pruned; 0: no pruning, a weighted mixture of all trees",
    )
    later: ClassVar = ("cutoff",)
    fits: ClassVar = True
    grows: ClassVar = True

    @model_validator(mode="after")
    def _check_pruning(self) -> "NgramConfig":
        if self.cutoff and self.estimator != "context_tree":
            raise ValueError(
                f"cutoff prunes the contexts of estimator=context_tree, not of {self.estimator}: leave it out"
            )
        return self

    @override
    def build(self, layers: int | None = None) -> Ngram:
        from seqloom.models.ngram.interpolated import Interpolated
        from seqloom.models.ngram.weighted import Weighted

        return Interpolated(self) if self.estimator == "kneser_ney" else Weighted(self)

"""The settings of models that count n-grams: `model.kind=ngram`, one of several estimators."""

from typing import ClassVar, Literal, final

from pydantic import Field
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.models.ngram.kneser_ney import MOST
from seqloom.models.ngram.reader import Ngram


@final
class NgramConfig(ModelConfig):
    """An estimator of the next token from the `order` - 1 tokens before it."""

    kind: Literal["ngram"] = "ngram"
    estimator: Literal["kneser_ney"] = Field(
        "kneser_ney", description="kneser_ney: interpolated modified Kneser-Ney (Chen and Goodman 1998)"
    )
    order: int = Field(5, ge=1, le=MOST, description="tokens of the longest n-gram, the predicted one included")
    fits: ClassVar = True
    grows: ClassVar = True

    @override
    def build(self, layers: int | None = None) -> Ngram:
        from seqloom.models.ngram.interpolated import Interpolated

        return Interpolated(self)

"""The settings of a regressor: its sizes, and what follows from the numbers that it is trained on."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, final

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.position import PositionConfig
from seqloom.data.series import Series
from seqloom.data.series.series import Scale
from seqloom.models.config import TransformerConfig
from seqloom.positions import AnyPosition
from seqloom.positions.none import NoPositionConfig

if TYPE_CHECKING:
    from seqloom.models.regressor import Regressor

LEAST = 1e-6
"""the smallest deviation of a column, by which its numbers are divided"""
Names = Annotated[tuple[str, ...], Field(strict=False)]
Numbers = Annotated[tuple[float, ...], Field(strict=False)]


@final
class RegressorConfig(TransformerConfig):
    """The sizes of a regressor and its mixers; its columns follow from the data."""

    kind: Literal["regressor"] = "regressor"
    vocab: int = Field(1, ge=1, le=2**24, description="the one embedding is the bias of the first matrix; set to 1")
    context: int = Field(128, ge=1, le=2**24, description="times of a window")
    position: AnyPosition = Field(NoPositionConfig(), description="kind of position information of the mixers, or none")
    embed_scale: Literal[False] = Field(False, description="only for embeddings of words")
    tie: Literal[False] = Field(False, description="only for an output over the vocabulary")
    head: Literal["gaussians", "mean"] = Field(
        "gaussians", description="gaussians: each number has a distribution, a mixture; mean: each has one value"
    )
    gaussians: int = Field(4, ge=1, le=256, description="Gaussians of a mixture, with head=gaussians")
    columns: Names = Field((), description="names of what is read; set from the data")
    targets: Names = Field((), description="names of what is predicted; set from the data")
    mean: Numbers = Field((), description="mean of each column; set from the data")
    deviation: Numbers = Field((), description="standard deviation of each column; set from the data")
    target_mean: Numbers = Field((), description="mean of each target; set from the data")
    target_deviation: Numbers = Field((), description="standard deviation of each target; set from the data")
    causal: ClassVar = True
    objective: ClassVar = "numbers"

    @property
    @override
    def outputs(self) -> int:
        return max(len(self.targets), 1) * (3 * self.gaussians if self.head == "gaussians" else 1)

    @model_validator(mode="after")
    def _no_added_position(self) -> "RegressorConfig":
        position: PositionConfig = self.position
        if position.place in ("embedding", "layers"):
            raise ValueError(
                f"a regressor reads series of any length, unlike the table of model.position={position.kind}: "
                "choose none, or one that acts in the mixers (rotary, t5, alibi, …)"
            )
        return self

    def with_series(self, series: Series) -> "RegressorConfig":
        """The settings with what follows from a series."""
        scale, output_scale = series.scale, series.output_scale
        update = {
            "vocab": 1,
            "context": series.context,
            "columns": series.columns,
            "targets": series.outputs,
            "mean": scale.mean,
            "deviation": _deviations_of(scale),
            "target_mean": output_scale.mean,
            "target_deviation": _deviations_of(output_scale),
        }
        return self.model_copy(update=update)

    @override
    def build(self, layers: int | None = None) -> "Regressor":
        from seqloom.models.regressor import Regressor

        return Regressor(self, layers)


def _deviations_of(scale: Scale) -> tuple[float, ...]:
    return tuple(max(number, LEAST) for number in scale.deviation)

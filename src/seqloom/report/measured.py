"""What was measured of a contender: a row of a comparison, whose English headings are read here alone."""

from collections.abc import Mapping
from typing import Any, Self, TypeAlias, final

from pydantic import BaseModel, ConfigDict

from seqloom.report.comparison import LOSS, Comparison

LOSSES = "held-out losses"
"""the held-out losses of the seeds, in order, in a row that is stored"""
TIME_AT, STATE_AT, RIGHT = "ms a token at ", "state bytes at ", " right"
"""how the headings begin that have a length, and how those of probes end"""
STEP, PEAK, TOKEN, STATE = "ms a step", "peak MB a step", "ms a generated token", "state bytes"

Number: TypeAlias = int | float
"""bytes stay whole numbers, which are written as such"""


@final
class Measured(BaseModel):
    """The numbers of one contender; None where one was not measured."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)
    contender: str
    paired: bool = False
    """whether the seed draws the order of the batches too"""
    held_out: Number | None = None
    """mean held-out loss over the seeds, in nats per token"""
    losses: tuple[Number, ...] = ()
    """the held-out loss of each seed that has one"""
    step_ms: Number | None = None
    peak_mb: Number | None = None
    token_ms: Number | None = None
    """of a generated token, mean over a window"""
    state_bytes: Number | None = None
    token_ms_at: dict[int, Number | None] = {}
    """of one more token, by the tokens before it"""
    state_bytes_at: dict[int, Number | None] = {}
    right: dict[str, Number | None] = {}
    """share of right answers, by probe"""

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> Self:
        """The numbers of a row by its headings; other columns are left out."""
        return cls(
            contender=row["contender"],
            paired=row.get("paired", False),
            held_out=row.get(LOSS),
            losses=tuple(row.get(LOSSES, ())),
            step_ms=row.get(STEP),
            peak_mb=row.get(PEAK),
            token_ms=row.get(TOKEN),
            state_bytes=row.get(STATE),
            token_ms_at=_by_length(row, TIME_AT),
            state_bytes_at=_by_length(row, STATE_AT),
            right={name.removesuffix(RIGHT): value for name, value in row.items() if name.endswith(RIGHT)},
        )


def list_measured(comparison: Comparison) -> list[Measured]:
    """What was measured of each contender of a comparison."""
    rows = []
    for contender in comparison.contenders:
        losses = [loss for loss in contender.spread.get(LOSS, [contender.value(LOSS)]) if loss is not None]
        own = {"contender": contender.name, "paired": comparison.paired, LOSSES: losses}
        rows.append(Measured.from_row({**contender.row, **own}))
    return rows


def _by_length(row: Mapping[str, Any], beginning: str) -> dict[int, Number | None]:
    """The values under the headings that begin so and end in a number of tokens."""
    return {
        int(name.removeprefix(beginning).replace(",", "")): value
        for name, value in row.items()
        if name.startswith(beginning)
    }

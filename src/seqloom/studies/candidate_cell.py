"""The cell of a comparison that trains a contender from one seed; its row has the losses."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from typing_extensions import override

from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.results import Results
from seqloom.studies.study import Row, RunCell


@final
class Trained(Row):
    """A run of a contender. Losses are None where the loss became NaN; `failed` then has the reason."""

    contender: str
    seed: int
    order: int
    """seed of the order of the batches"""
    batches: int
    held_out: float | None
    bits_per_byte: float | None = None
    accuracy: float | None = None
    """share of masked tokens that were predicted correctly"""
    training: float | None
    """training loss, the median over the last tenth of the batches; None for a model of counts, which has none"""
    by_position: tuple[float | None, ...] = ()
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class CandidateCell(RunCell):
    """A contender trained from one seed."""

    schema: ClassVar = Trained
    contender: str

    @property
    @override
    def about(self) -> str:
        return self.contender

    def read(self, run: Run, failed: str | None) -> list[Trained]:
        """One row: the held-out loss at the end, and the median training loss over the last tenth of the batches."""
        shared: dict[str, Any] = {
            "contender": self.contender,
            "seed": self.config.training.seed,
            "order": self.config.data.seed,
            "batches": self.config.training.batches,
        }
        if failed is not None:
            return [Trained(**shared, held_out=None, training=None, failed=failed)]
        rows = read(run.metrics)
        losses = [row["loss"] for row in rows if "loss" in row]
        last_score = [row for row in rows if "held_out" in row][-1]
        by_position = tuple(round(float(loss), 5) for loss in last_score.get("by_position", []))
        return [
            Trained(
                **shared,
                held_out=last_score["held_out"],
                bits_per_byte=last_score.get("bits_per_byte"),
                accuracy=last_score.get("accuracy"),
                training=statistics.median(losses[-last_tenth(len(losses)) :]) if losses else None,
                by_position=by_position,
            )
        ]

    def text(self, rows: Sequence[Trained]) -> str:
        """The held-out loss."""
        (row,) = rows
        return row.failed or f"held-out loss {row.held_out:.4f}"


def last_tenth(batches: int) -> int:
    """The number of batches at the end of a run over which the median of the training loss is taken."""
    return max(1, batches // 10)


def trained_run(runs: Sequence[CandidateCell], results: Results) -> CandidateCell | None:
    """A contender's first run that is or will be trained to its end; None where a loss became NaN, or all failed."""
    not_failed = []
    for run in runs:
        rows = [row for row in results.rows.get(run.name, []) if isinstance(row, Trained)]
        if any(row.failed is not None for row in rows):
            return None
        if run.name not in results.failed:
            not_failed.append(run)
    return not_failed[0] if not_failed else None

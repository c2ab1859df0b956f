"""The table of one probe at one difficulty: every mixer at its best learning rate, with its accuracy by distance."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import final

from seqloom.core.statistics import mean
from seqloom.core.table import table
from seqloom.studies.probe_cell import Answers


@final
@dataclass(frozen=True)
class Best:
    """The means over the seeds of a mixer at one width and its best learning rate."""

    mixer: str
    dim: int
    lr: float
    parameters: int
    batches: float
    seconds: float
    accuracy: float
    by_distance: dict[tuple[int, int], float]
    state_bytes: int | None = None


def rank_mixers(rows: Sequence[Answers]) -> list[Best]:
    """Every mixer and width at its best learning rate, by falling accuracy; `rows` are of one probe and difficulty.

    As in Zoology, the learning rate is chosen by the same questions that the accuracy is of; answers of runs that did
    not converge count as wrong.
    """
    best: dict[tuple[str, int], Best] = {}

    def model(row: Answers) -> tuple[str, int, float]:
        return row.mixer, row.dim, row.lr

    for (mixer, dim, lr), group in groupby(sorted(rows, key=model), model):
        answers = list(group)
        over_all_distances = [row for row in answers if row.distance is None]
        distances = {row.distance for row in answers if row.distance is not None}
        candidate = Best(
            mixer,
            dim,
            lr,
            over_all_distances[0].parameters,
            mean([row.batches for row in over_all_distances]),
            mean([row.seconds for row in over_all_distances]),
            mean([row.accuracy or 0.0 for row in over_all_distances]),
            {distance: mean([row.accuracy for row in answers if row.distance == distance]) for distance in distances},
            over_all_distances[0].state_bytes,
        )
        if (mixer, dim) not in best or candidate.accuracy > best[mixer, dim].accuracy:
            best[mixer, dim] = candidate
    return sorted(best.values(), key=lambda result: -result.accuracy)


def text(rows: Sequence[Answers]) -> str:
    """The table of one probe at one difficulty: the best mixer first, each at its best learning rate."""
    first = rows[0]
    seeds = len({row.seed for row in rows})
    settings = ", ".join(f"{name} {value:,}" for name, value in first.settings.items())
    if first.test is not None:
        settings += f"; asked about {', '.join(f'{name} {value:,}' for name, value in first.test.items())}"
    distances = sorted({row.distance for row in rows if row.distance is not None})
    head = ["mixer", "dim", "parameters", "state bytes", "learning rate", "batches", "seconds", "right"]
    cells = [
        [
            best.mixer,
            best.dim,
            best.parameters,
            best.state_bytes,
            f"{best.lr:g}",
            round(best.batches),
            best.seconds,
            _share(best.accuracy),
            *(_share(best.by_distance.get(distance)) for distance in distances),
        ]
        for best in rank_mixers(rows)
    ]
    heads = [*head, *(f"{low}" if low == high else f"{low}-{high}" for low, high in distances)]
    note = "right: of all questions, then of those whose answer stands so many tokens back"
    return "\n".join(
        [
            f"{first.probe} at difficulty {first.difficulty} ({settings}): chance is {_share(first.chance)}",
            "",
            table(heads, cells),
            "",
            note + (f"; means of {seeds} seeds" if seeds > 1 else ""),
        ]
    )


def _share(value: float | None) -> str | None:
    return None if value is None else f"{value:.1%}"

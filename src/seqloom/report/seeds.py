"""Rows of models that were trained with several seeds: in the order of their means, and how many seeds there are."""

from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import fmean
from typing import TypeVar

from seqloom.report.columns import Count
from seqloom.report.results import StudyRow


class SeedRow(StudyRow):
    """A row of one mixer on one source with one seed; subclasses declare its numbers."""

    mixer: str
    source: str
    seed: Count


R = TypeVar("R", bound=SeedRow)


def rank_by_mean(rows: Sequence[R], value: Callable[[R], float]) -> list[R]:
    """The rows by source, those of the mixer with the lowest mean value first."""
    means = {
        model: fmean(value(row) for row in group) for model, group in groupby(sorted(rows, key=model_of), key=model_of)
    }
    return sorted(rows, key=lambda row: (row.source, means[model_of(row)], row.mixer, row.seed))


def model_of(row: SeedRow) -> tuple[str, str]:
    """What the rows of all seeds of a model have in common."""
    return row.source, row.mixer


def describe_seeds(seeds: int) -> str:
    """A sentence on what the numbers rest on."""
    return "One run each: no difference can be called significant." if seeds == 1 else f"Means of {seeds} seeds."

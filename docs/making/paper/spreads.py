"""Sums of costs with weights, and their 95% intervals over seeds.

    c = Σ_m w_m mean_s x_ms,     ± = t σ √(Σ_m w_m² / n),     σ² = Σ_ms (x_ms - x_m - x_s + x)² / (M-1)(S-1)

m: the M models of a study, s: their S seeds; x_m, x_s, x: means over seeds, over models, over both. Costs are paired by
seed, because seeds share batches; all models share one spread σ, because two or three runs of one say too little of
it. A claim says that c is below 0. With one seed there is no interval: c is settled where it is further from 0 than
`ONE_SEED` times the spread that it has between seeds, σ √Σ w², with σ of a study of several seeds (Figure 8).

Source: the residuals of an analysis of variance with two factors; e.g. Fisher, The Design of Experiments, 1935. Taking
another study's spread for a single seed is ours.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Literal, TypeAlias, final

from seqloom.experiments.seeds import T95
from seqloom.report.plates.rows import Plate

ONE_SEED = 3
"""spreads that settle a difference of single runs"""
Key: TypeAlias = tuple[str, float | None]
"""a line of a study: its series, and what the figure varies"""
Word: TypeAlias = Literal["holds", "does not hold", "not settled"]
Column: TypeAlias = Literal["training", "held_out"]


@final
@dataclass(frozen=True)
class Contrast:
    """A sum of costs with weights, which a claim says is below 0."""

    name: str
    weights: Mapping[Key, float]


@final
@dataclass(frozen=True)
class Spread:
    """The deviation of a run from what its model and its seed explain."""

    sigma: float
    freedom: int

    @property
    def t(self) -> float:
        """Student's, at 0.975."""
        return T95[self.freedom - 1] if self.freedom <= len(T95) else 1.96


@final
@dataclass(frozen=True)
class Estimate:
    """A contrast as it was measured; `half` is half of its interval, or what a single seed has to exceed."""

    name: str
    mean: float
    half: float | None
    seeds: int

    @property
    def word(self) -> Word:
        """Whether it is below 0."""
        if self.half is None or abs(self.mean) <= self.half:
            return "not settled"
        return "holds" if self.mean < 0 else "does not hold"

    @property
    def said(self) -> str:
        """Its numbers, in nats a token."""
        if self.half is None:
            return f"{self.name}: {self.mean:+.3f}"
        return f"{self.name}: {self.mean:+.3f} " + (f"± {self.half:.3f}" if self.seeds > 1 else f"[{self.half:.3f}]")


def finished(plate: Plate, column: Column) -> dict[Key, dict[int, float]]:
    """The costs of the cells that are finished, by line and seed; a line that has none yet is there."""
    return {
        (line.series, line.x): {
            seed.row["seed"]: float(seed.row[column])
            for seed in line.seeds
            if seed.row["finished"] and seed.row[column] is not None
        }
        for line in plate.lines
    }


def spread(plate: Plate | None, column: Column) -> Spread | None:
    """That of the lines which have the most seeds; None where none has two, or one line alone has."""
    known = list(finished(plate, column).values()) if plate else []
    seeds = max((tuple(costs) for costs in known), key=len, default=())
    full = [[costs[seed] for seed in seeds] for costs in known if tuple(costs) == seeds]
    freedom = (len(full) - 1) * (len(seeds) - 1)
    if freedom < 1:
        return None
    models, each, all_ = (
        [fmean(row) for row in full],
        [fmean(way) for way in zip(*full, strict=True)],
        fmean(cost for row in full for cost in row),
    )
    squares = sum(
        (cost - model - seed + all_) ** 2
        for row, model in zip(full, models, strict=True)
        for cost, seed in zip(row, each, strict=True)
    )
    return Spread(math.sqrt(squares / freedom), freedom)


def estimate(contrast: Contrast, plate: Plate, column: Column, lent: Spread | None) -> Estimate | None:
    """Over the seeds that all of its terms have; None where there is none. LookupError for a line that is not there."""
    known, weights = finished(plate, column), {key: w for key, w in contrast.weights.items() if w}
    terms = {key: known[key] for key in weights}
    seeds = set.intersection(*(set(costs) for costs in terms.values()))
    if not seeds:
        return None
    mean = sum(w * fmean(terms[key][seed] for seed in seeds) for key, w in weights.items())
    size, own = math.sqrt(sum(w * w for w in weights.values())), spread(plate, column)
    if len(seeds) > 1 and own:
        return Estimate(contrast.name, mean, own.t * own.sigma * size / math.sqrt(len(seeds)), len(seeds))
    other = own or lent
    return Estimate(contrast.name, mean, other and ONE_SEED * other.sigma * size, 1 if other else len(seeds))

"""Sums of costs with weights, and their 95% intervals over seeds.

    c = Σ_m w_m mean_s x_ms,     ± = t √(Σ_m w_m² σ_m² / n),     σ_m = max(deviation of x_m1 … x_mn, the median model's)

m: the models of a study, s: the n seeds that all of them have; t: Student's for n-1 degrees of freedom. Some models
vary several times as much between seeds as others, so that each has a spread of its own; two or three runs say little
of it, so that none is taken to vary less than the median model does. A claim says that c is below 0.

With one seed there is no interval: c is settled where it is further from 0 than `ONE_SEED` times the spread that it has
between seeds, √Σ w² σ_m², with σ_m of a study of several seeds (Figure 8) after a like number of batches; a model that
it does not have has the spread of the mixer that it is a kind of, or the median model's.

Source: the interval of a sum of means with unequal variances, e.g. Welch, The significance of the difference between
two means when the population variances are unequal, Biometrika 29, 1938, with the fewest degrees of freedom that its
approximation can come to. The floor of the median, and another study's spread for a single seed, are ours.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import fmean, median, stdev
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
    """The deviation of a run from its model's mean: the median model's, and each model's by its series."""

    median: float
    own: Mapping[str, float] = field(default_factory=dict)

    def of(self, series: str) -> float:
        """That of a line, or of the mixer that it is a kind of, as she of “she-groups=2”; at least the median."""
        kin = (series, series.partition(", ")[0], series.partition("-")[0])
        return max(self.median, next((self.own[name] for name in kin if name in self.own), 0.0))

    def around(self, weights: Mapping[Key, float]) -> float:
        """That of a sum with weights of a run of each."""
        return math.sqrt(sum((weight * self.of(series)) ** 2 for (series, _), weight in weights.items()))


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


def spread(plate: Plate, column: Column) -> Spread | None:
    """That of the lines with the most seeds, where the widest of a series counts; None where none has two."""
    known = finished(plate, column)
    most = max((len(costs) for costs in known.values()), default=0)
    if most < 2:
        return None
    found: dict[str, float] = {}
    for (series, _), costs in known.items():
        if len(costs) == most:
            found[series] = max(found.get(series, 0.0), stdev(costs.values()))
    return Spread(median(found.values()), found)


def half(deviation: float, seeds: int) -> float:
    """Half the 95% interval of the mean of two or more runs."""
    return T95[min(seeds - 1, len(T95)) - 1] * deviation / math.sqrt(seeds)


def estimate(contrast: Contrast, plate: Plate, column: Column, lent: Spread | None) -> Estimate | None:
    """Over the seeds that all of its terms have; None where there is none."""
    known, weights = finished(plate, column), {key: w for key, w in contrast.weights.items() if w}
    seeds = set.intersection(*(set(known.get(key, {})) for key in weights))
    if not seeds:
        return None
    mean = sum(w * fmean(known[key][seed] for seed in seeds) for key, w in weights.items())
    own = spread(plate, column)
    if len(seeds) > 1 and own:
        return Estimate(contrast.name, mean, half(own.around(weights), len(seeds)), len(seeds))
    other = own or lent
    return Estimate(contrast.name, mean, other and ONE_SEED * other.around(weights), 1 if other else len(seeds))

"""Sums of costs with weights, and their 95% intervals over seeds.

    c = Σ_m w_m mean_s x_ms,     ± = the wider of t σ √(Σ_m w_m² / n) and t' d / √n
    r_ms = x_ms - x_m - x_s + x,     σ² = Σ_ms r_ms² / (M-1)(S-1),     σ_m² = Σ_s r_ms² M / (M-1)(S-1)

m: the M models of a study, s: their S seeds; x_m, x_s, x: means over seeds, over models, over both; d: the deviation of
the n sums Σ_m w_m x_ms themselves, with n-1 degrees of freedom. Costs are paired by seed, because seeds share batches.
The spread σ of all models together is known from more runs; that of the sum itself is taken where it is wider, because
some models vary several times as much as others. A claim says that c is below 0.

With one seed there is no interval: c is settled where it is further from 0 than `ONE_SEED` times the spread that it has
between seeds, √Σ w² max(σ, σ_m)², with σ and σ_m of a study of several seeds (Figure 8) after a like number of batches.

Source: the residuals of an analysis of variance with two factors; e.g. Fisher, The Design of Experiments, 1935. Taking
the wider of two intervals, and another study's spread for a single seed, is ours.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev
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
    """The deviation of a run from what its model and its seed explain: of all models, and of each by its series."""

    sigma: float
    freedom: int
    own: Mapping[str, float] = field(default_factory=dict)

    @property
    def t(self) -> float:
        """Student's, at 0.975."""
        return _t(self.freedom)

    def of(self, series: str) -> float:
        """That of a line, or of the mixer that it is a kind of, as she of “she-groups=2”; that of all where wider."""
        kin = (series, series.partition(", ")[0], series.partition("-")[0])
        return max(self.sigma, next((self.own[name] for name in kin if name in self.own), 0.0))


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
    known = finished(plate, column) if plate else {}
    seeds = max((tuple(costs) for costs in known.values()), key=len, default=())
    full = {key: [costs[seed] for seed in seeds] for key, costs in known.items() if tuple(costs) == seeds}
    freedom = (len(full) - 1) * (len(seeds) - 1)
    if freedom < 1:
        return None
    each = [fmean(way) for way in zip(*full.values(), strict=True)]
    squares = {key: _squares(row, each) for key, row in full.items()}
    own: dict[str, float] = {}
    for (series, _), found in squares.items():
        own[series] = max(own.get(series, 0.0), math.sqrt(found * len(full) / freedom))
    return Spread(math.sqrt(sum(squares.values()) / freedom), freedom, own)


def estimate(contrast: Contrast, plate: Plate, column: Column, lent: Spread | None) -> Estimate | None:
    """Over the seeds that all of its terms have; None where there is none."""
    known, weights = finished(plate, column), {key: w for key, w in contrast.weights.items() if w}
    seeds = sorted(set.intersection(*(set(known.get(key, {})) for key in weights)))
    if not seeds:
        return None
    sums = [sum(w * known[key][seed] for key, w in weights.items()) for seed in seeds]
    mean, own = fmean(sums), spread(plate, column)
    if len(seeds) > 1 and own:
        size = math.sqrt(sum(w * w for w in weights.values()))
        widest = max(own.t * own.sigma * size, _t(len(seeds) - 1) * stdev(sums))
        return Estimate(contrast.name, mean, widest / math.sqrt(len(seeds)), len(seeds))
    other = own or lent
    if other is None:
        return Estimate(contrast.name, mean, None, len(seeds))
    size = math.sqrt(sum((w * other.of(series)) ** 2 for (series, _), w in weights.items()))
    return Estimate(contrast.name, mean, ONE_SEED * size, 1)


def _squares(row: Sequence[float], each: Sequence[float]) -> float:
    """Of what a model's costs, less its mean, differ from those that all models have by each seed."""
    return sum((cost - fmean(row) - seed + fmean(each)) ** 2 for cost, seed in zip(row, each, strict=True))


def _t(freedom: int) -> float:
    return T95[freedom - 1] if freedom <= len(T95) else 1.96

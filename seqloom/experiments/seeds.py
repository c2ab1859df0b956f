"""Several seeds of each contender: means, and 95% intervals of the held-out cost.

    ± = t s / √n,     s² = Σ_c Σ_r (x_cr - mean_c)² / Σ_c (n_c - 1)

c: contenders, r: the n_c runs of one, which differ in the seed of weights and dropout alone. The spread s is shared by
all contenders, because two or three runs of one are too few to know it; t is Student's, for Σ (n_c - 1) degrees of
freedom.

Source: the pooled variance of an analysis of variance with one factor; e.g. Fisher, Statistical Methods for Research
Workers, 1925. Nothing differs.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

T95 = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131),
    *(2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""Student's t at 0.975 for 1 to 30 degrees of freedom; beyond, the normal's 1.96 is taken"""


def intervals(costs: Mapping[str, Sequence[float]]) -> dict[str, float | None]:
    """Half the width of the 95% interval of each contender's mean; None for all where none has two runs."""
    freedom = sum(len(values) - 1 for values in costs.values())
    if freedom < 1:
        return dict.fromkeys(costs)
    squares = sum((value - statistics.fmean(values)) ** 2 for values in costs.values() for value in values)
    spread = math.sqrt(squares / freedom)
    t = T95[freedom - 1] if freedom <= len(T95) else 1.96
    return {name: t * spread / math.sqrt(len(values)) for name, values in costs.items()}


def mean(values: Sequence[Any]) -> Any:
    """The mean; whole numbers that are all alike stay whole, and a missing one makes the mean missing."""
    if any(value is None for value in values):
        return None
    return values[0] if all(value == values[0] for value in values) else statistics.fmean(values)

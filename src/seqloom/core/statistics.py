"""Statistics of a loss over seeds: intervals of means, differences to a baseline, and which of them are significant.

    mean of n runs       x̄ ± t_ν s / √n,   ν = n-1                                                Student
    contrast             d = Σ_m w_m x̄_m,   e² = Σ_m v_m,   v_m = w_m² s_m² / n_m                   Welch
                         d ± t_ν e,   ν = e⁴ / Σ_m v_m² / (n_m-1)
    paired by seed       d_r = Σ_m w_m x_mr for each seed r that all models have, then Student of the d_r
    paired by fold       the same, with the error s √(1/n + q): q texts are tested for each that is trained on
    adjusted p           of the k-th smallest of K:   max_{j≤k} min(1, (K-j+1) p_j)                Holm

m: the models, r: their runs, s_m: the deviation of a model's own runs, t_ν: Student's at 0.975. Runs that read the same
batches and differ in weights and dropout are independent (Welch); where the seed draws the order of the batches too,
runs of the same seed share it, and are paired. Where run r is tested on fold r and trained on the others, the runs
share most of their training texts, so that s/√n would be too small an error. A difference is significant where it has
at least `FEWEST` seeds and an adjusted p below `LEVEL`.

Source: Student, The probable error of a mean, Biometrika 6, 1908; Welch, The generalization of Student's problem when
several different population variances are involved, Biometrika 34, 1947; Holm, A simple sequentially rejective multiple
test procedure, Scandinavian Journal of Statistics 6, 1979; Nadeau and Bengio, Inference for the generalization error,
Machine Learning 52, 2003 (folds). Nothing differs.
"""

import math
import sys
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Literal, TypeAlias, TypeVar, final

LEVEL = 0.05
"""a difference is significant with an adjusted p below it; intervals cover 1 - LEVEL"""
FEWEST = 3
"""seeds that a significant difference needs at least"""
ROUNDING = 10 * sys.float_info.epsilon
"""runs whose standard error is below this share of their means are equal but for rounding"""

Model = TypeVar("Model", bound=Hashable)
Runs: TypeAlias = Mapping[int, float]
"""the loss of each run by its seed"""
Word: TypeAlias = Literal["lower", "higher", "no clear difference", "one run"]


@final
@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, or a weighted sum of such means."""

    mean: float
    seeds: int
    """the fewest runs that any of its models has"""
    error: float | None = None
    """standard error; None where it is unknown: after one seed, or where seeds change nothing"""
    freedom: float = 0.0
    """degrees of freedom of `error`"""

    @property
    def half(self) -> float | None:
        """Half of the 95% interval; None without a standard error."""
        return None if self.error is None else self.error * quantile(1 - LEVEL / 2, self.freedom)

    @property
    def p(self) -> float | None:
        """The two-sided p of the hypothesis that the true value is 0; None with fewer than `FEWEST` seeds."""
        if self.error is None or self.seeds < FEWEST:
            return None
        return 2 * tail(-abs(self.mean) / self.error, self.freedom)

    def __str__(self) -> str:
        """The mean as text, with half of its 95% interval where it has one."""
        return f"{self.mean:.3f}{self._interval}"

    @property
    def signed_text(self) -> str:
        """The same with a sign, as a difference is written."""
        return f"{self.mean:+.3f}{self._interval}"

    @property
    def _interval(self) -> str:
        return "" if self.half is None else f" ± {self.half:.3f}"


@final
@dataclass(frozen=True)
class Difference:
    """A model's loss minus the baseline's, among all differences of one table."""

    estimate: Estimate
    adjusted: float | None
    """p after Holm's correction; None where the difference could not be tested"""
    smallest: float | None
    """a difference larger than this would have been significant, with the other rows of the table as they are"""

    @property
    def word(self) -> Word:
        """Whether the model's loss is significantly lower or higher than the baseline's."""
        if self.estimate.seeds == 1:
            return "one run"
        if self.adjusted is None or self.adjusted >= LEVEL:
            return "no clear difference"
        return "lower" if self.estimate.mean < 0 else "higher"

    @property
    def verdict(self) -> str:
        """The verdict without its direction, such as "significant (p 0.012)" or "no clear difference"."""
        if self.word in ("lower", "higher") and self.adjusted is not None:
            return f"significant (p {p_text(self.adjusted)})"
        return self.word


def mean_of(values: Sequence[float], scale: float = 0.0, share: float = 0.0) -> Estimate:
    """The mean of one or more runs with Student's standard error.

    Where `values` are differences, `scale` is the size of the values that were subtracted: an error that is only their
    rounding counts as none. `share` is q: tested texts per training text where the runs are tested on folds, else 0.
    """
    mean, count = fmean(values), len(values)
    squares = math.fsum((value - mean) ** 2 for value in values)
    variance = squares / (count - 1) if count > 1 else 0.0
    error = math.sqrt(variance / count + share * variance)
    if error <= ROUNDING * max(abs(mean), scale):
        return Estimate(mean, count)
    return Estimate(mean, count, error, count - 1)


def contrast(
    weights: Mapping[Model, float], runs: Mapping[Model, Runs], *, paired: bool = False, share: float = 0.0
) -> Estimate | None:
    """Σ weight × mean loss over the models. None where a model has no run or, if `paired`, where no seed is common.

    `share`, for paired runs, is that of `mean_of`.
    """
    weighted = {model: runs.get(model, {}) for model, weight in weights.items() if weight}
    if paired:
        common = sorted(set.intersection(*(set(losses) for losses in weighted.values())))
        sums = [sum(weights[m] * losses[seed] for m, losses in weighted.items()) for seed in common]  # d_r
        scale = max((abs(loss) for losses in weighted.values() for loss in losses.values()), default=0.0)
        return mean_of(sums, scale, share) if sums else None
    if not all(weighted.values()):
        return None
    means = {model: mean_of(list(losses.values())) for model, losses in weighted.items()}
    total = sum(weights[m] * estimate.mean for m, estimate in means.items())  # d
    fewest = min(estimate.seeds for estimate in means.values())
    variances = [(weights[m] * (estimate.error or 0.0)) ** 2 for m, estimate in means.items()]  # v_m
    variance = sum(variances)  # e²
    if fewest == 1 or not variance:
        return Estimate(total, fewest)
    counts = [estimate.seeds for estimate in means.values()]  # n_m
    freedom = 1 / sum((v / variance) ** 2 / (n - 1) for v, n in zip(variances, counts, strict=True))
    return Estimate(total, fewest, math.sqrt(variance), freedom)


def holm(ps: Sequence[float]) -> list[float]:
    """The p values after Holm's adjustment, in the given order."""
    adjusted = [1.0] * len(ps)
    highest = 0.0
    ascending = sorted(range(len(ps)), key=lambda index: ps[index])
    for rank, index in enumerate(ascending):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[index]))
        adjusted[index] = highest
    return adjusted


def differences(
    runs: Mapping[Model, Runs], baselines: Mapping[Model, Model], *, paired: bool = False, share: float = 0.0
) -> dict[Model, Difference]:
    """The difference of every model to its baseline; Holm's correction is over all of them together.

    Models that are their own baseline, or that have no runs, are left out. `paired` and `share` as in `contrast`.
    """
    estimates = {
        model: estimate
        for model, baseline in baselines.items()
        if model != baseline
        and (estimate := contrast({model: 1, baseline: -1}, runs, paired=paired, share=share)) is not None
    }
    ps = {model: p for model, estimate in estimates.items() if (p := estimate.p) is not None}
    adjusted = dict(zip(ps, holm(list(ps.values())), strict=True))
    result = {}
    for model, estimate in estimates.items():
        other_ps = [p for other, p in ps.items() if other != model]
        result[model] = Difference(estimate, adjusted.get(model), _smallest(estimate, other_ps))
    return result


def _smallest(estimate: Estimate, others: Sequence[float]) -> float | None:
    """The least difference that Holm's procedure calls significant, given the p values of the others in its family.

    If the procedure, in a family of K, rejects r of the K-1 others, it rejects `estimate` where its p is below
    LEVEL / (K - r).
    """
    if estimate.p is None or estimate.error is None:
        return None
    family, rejected = len(others) + 1, 0
    for p in sorted(others):
        if p * (family - rejected) >= LEVEL:
            break
        rejected += 1
    return estimate.error * quantile(1 - LEVEL / (family - rejected) / 2, estimate.freedom)


def p_text(p: float) -> str:
    """An adjusted p as text, to follow the word p."""
    return "below 0.001" if p < 0.001 else f"{p:.3f}"


def smallest_significant(smallest: Mapping[str, float | None], baseline: str, seeds: int) -> str:
    """The sentence under a table: the smallest significant difference to the baseline, by model."""
    differences_by_size = sorted((size, name) for name, size in smallest.items() if size is not None)
    if not differences_by_size:
        why = "one run of each" if seeds == 1 else f"that takes at least {FEWEST} seeds that differ"
        return f"No difference to {baseline} can be called significant: {why}."
    least, first = differences_by_size[0]
    most, last = differences_by_size[-1]
    to_most = f" to {most:.3f} ({last})" if len(differences_by_size) > 1 else ""
    return f"The smallest difference to {baseline} that would have been significant: {least:.3f} ({first}){to_most}."


def quantile(p: float, freedom: float) -> float:
    """The p-quantile of Student's t with `freedom` degrees of freedom."""
    from scipy.special import stdtrit  # imported here: it takes 0.3 s, which `--help` and `list` do not need

    return float(stdtrit(freedom, p))


def tail(t: float, freedom: float) -> float:
    """The probability that Student's t with `freedom` degrees of freedom is below `t`."""
    from scipy.special import stdtr

    return float(stdtr(freedom, t))


def mean(values: Sequence[Any]) -> Any:
    """The mean of the values, or None if one is None. Values that are all equal are returned as they are."""
    if any(value is None for value in values):
        return None
    return values[0] if all(value == values[0] for value in values) else fmean(values)

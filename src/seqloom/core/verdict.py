"""Verdicts on pairs of models that were chosen before the runs: which differ significantly, which are equal.

    d_r                   loss of the first minus loss of the second model, in run r (a seed, or a fold)
    significant           p after Holm's correction over all pairs is below LEVEL                             Holm
    fragile               significant, but no longer where some run r is left out of all pairs
    equal within m        |d̄| + t_ν e < m, with Student's t_ν at 1 - LEVEL: both one-sided tests reject       Schuirmann
    no clear difference   neither significant nor equal within m

d̄, e, ν: mean, standard error and degrees of freedom of the d_r (`core.statistics`). A difference may be significant
and smaller than m at once: both are then said.

Source: Schuirmann, A comparison of the two one-sided tests procedure and the power approach, Journal of
Pharmacokinetics and Biopharmaceutics 15, 1987. Nothing differs; "fragile" is ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import final

from seqloom.core.statistics import FEWEST, LEVEL, Difference, Estimate, Runs, differences, p_text, quantile


@final
@dataclass(frozen=True)
class Verdict:
    """The verdict on one pair: first minus second model."""

    difference: Difference
    margin: float
    """differences below it do not matter, in the unit of the losses"""
    needed: tuple[int, ...] = ()
    """the runs without which a significant difference would not be significant"""

    @property
    def is_significant(self) -> bool:
        """Whether p after Holm's correction is below LEVEL."""
        return self.difference.adjusted is not None and self.difference.adjusted < LEVEL

    @property
    def equal(self) -> bool:
        """Whether both one-sided tests reject a difference of the margin or more; never from fewer than three runs."""
        estimate = self.difference.estimate
        if estimate.error is None or estimate.seeds < FEWEST:
            return False
        return abs(estimate.mean) + estimate.error * quantile(1 - LEVEL, estimate.freedom) < self.margin

    @property
    def words(self) -> str:
        """The verdict in words, such as "significant (p 0.012), fragile" or "no clear difference"."""
        estimate = self.difference.estimate
        if estimate.seeds < FEWEST:
            return "one run" if estimate.seeds == 1 else f"{estimate.seeds} runs, too few to test"
        words = []
        if self.is_significant and self.difference.adjusted is not None:
            words.append(f"significant (p {p_text(self.difference.adjusted)})")
            if self.needed:
                words.append("fragile")
        if self.equal:
            words.append(f"equal within {self.margin:g}")
        return ", ".join(words) or "no clear difference"


def verdicts(
    losses: Mapping[str, Runs], pairs: Mapping[str, tuple[str, str]], *, margin: float, share: float = 0.0
) -> dict[str, Verdict]:
    """The verdict on each pair of models that have runs in common, by the name of the pair.

    `losses` are by model and run. Holm's correction is over all these pairs. `share` is that of `statistics.mean_of`:
    tested texts per training text where run r is tested on fold r, 0 where all runs are tested on one text.
    """
    paired = {
        name: by_run
        for name, (first, second) in pairs.items()
        if (by_run := _paired_differences(losses.get(first, {}), losses.get(second, {})))
    }
    tested = _test_differences(paired, share)
    runs = sorted({run for by_run in paired.values() for run in by_run})
    without = {
        run: _test_differences({name: _left_out(by_run, run) for name, by_run in paired.items()}, share) for run in runs
    }
    result = {}
    for name, difference in tested.items():
        needed = tuple(run for run in runs if run in paired[name] and not _is_significant(without[run].get(name)))
        result[name] = Verdict(difference, margin, needed if _is_significant(difference) else ())
    return result


def _test_differences(paired: Mapping[str, Runs], share: float) -> dict[str, Difference]:
    """The differences with Holm's correction; each pair is compared with zeros, its own baseline."""
    zeros = {f"{name} = 0": dict.fromkeys(by_run, 0.0) for name, by_run in paired.items()}
    baselines = {name: f"{name} = 0" for name in paired}
    return differences({**paired, **zeros}, baselines, paired=True, share=share)


def _paired_differences(first: Runs, second: Runs) -> dict[int, float]:
    """The differences of the runs that both models have, by run."""
    return {run: first[run] - second[run] for run in sorted(first.keys() & second.keys())}


def _left_out(by_run: Runs, left_out: int) -> dict[int, float]:
    return {run: difference for run, difference in by_run.items() if run != left_out}


def _is_significant(difference: Difference | None) -> bool:
    return difference is not None and difference.adjusted is not None and difference.adjusted < LEVEL


def interval(estimate: Estimate) -> str:
    """The mean with a sign and half of its 95% interval, to four digits after the point."""
    return f"{estimate.mean:+.4f}" + ("" if estimate.half is None else f" ± {estimate.half:.4f}")

"""Verdicts on the claims of a figure: they hold, do not hold, are undecided, or rest on one run.

A claim says that each of its k contrasts, weighted sums of losses, is below 0. With the two-sided p_i of each:

    it holds          where all contrasts are below 0;       p = max p_i
    it does not hold  where one of them is above 0;          p = min(1, k · min of their p_i)

and Holm's correction over all claims of the figure, for each of the two losses: a verdict needs an adjusted p below
0.05. A contrast has a p from three seeds on (core/statistics.py).
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, TypeVar, final

from seqloom.core.statistics import FEWEST, LEVEL, Estimate, contrast, holm, p_text
from seqloom_studies.paper.compared import Key, Loss, losses
from seqloom_studies.paper.page_rows import Study

MOST = 3
"""the most differences that are all shown; of more, only the one that is nearest to failing"""
Word: TypeAlias = Literal["holds", "does not hold", "undecided", "one run"]
FORMS: Mapping[Word, tuple[str, str]] = {
    "holds": ("holds", "hold"),
    "does not hold": ("does not", "do not"),
    "undecided": ("is undecided", "are undecided"),
    "one run": ("rests on one run", "rest on one run"),
}
"""the form of each word after a number of claims: after 1, and after several"""
Name = TypeVar("Name", bound=Hashable)


@final
@dataclass(frozen=True)
class Contrast:
    """A weighted sum of losses, which a claim says is below 0."""

    name: str
    weights: Mapping[Key, float]


Rule: TypeAlias = Callable[[Study], Sequence[Contrast]]
"""from a study to the contrasts that a claim says are below 0; a line that is not in the study counts as unfinished"""


@final
@dataclass(frozen=True)
class Verdict:
    """The verdict on a claim, the reason why it is not stronger, and what was measured; `seeds` is 0 without runs."""

    word: Word
    why: str = ""
    measured: str = ""
    seeds: int = 0

    def __str__(self) -> str:
        """The word, the reason and what was measured."""
        return self.word + self.reason

    @property
    def reason(self) -> str:
        """The text after the word: the reason why the verdict is not stronger, and what was measured."""
        return (f" ({self.why})" if self.why else "") + (f": {self.measured}" if self.measured else "")


UNMEASURED = Verdict("undecided", "not measured yet")


def count_verdicts(verdicts: Sequence[Verdict]) -> str:
    """How many there are of each word: 6 hold, 1 does not and 2 are undecided."""
    words: Counter[str] = Counter(verdict.word for verdict in verdicts)
    parts = [f"{words[word]} {one if words[word] == 1 else many}" for word, (one, many) in FORMS.items() if words[word]]
    return " and ".join(filter(None, [", ".join(parts[:-1]), *parts[-1:]]))


@final
@dataclass(frozen=True)
class Evidence:
    """What a figure shows about one claim: the verdict if the adjusted p is small enough, and `otherwise`."""

    p: float | None
    """None where no contrast could be tested"""
    verdict: Verdict
    otherwise: Verdict


def judge_claims(rules: Mapping[Name, Rule], study: Study, loss: Loss) -> dict[Name, Verdict]:
    """The verdicts on all claims of a figure, which are one family."""
    by_name = {name: evidence(rule(study), study, loss) for name, rule in rules.items()}
    tested = {name: claim_evidence.p for name, claim_evidence in by_name.items() if claim_evidence.p is not None}
    adjusted = dict(zip(tested, holm(list(tested.values())), strict=True))
    return {name: _verdict(claim_evidence, adjusted.get(name)) for name, claim_evidence in by_name.items()}


def _verdict(evidence: Evidence, adjusted: float | None) -> Verdict:
    if adjusted is None:
        return evidence.otherwise
    verdict = evidence.verdict if adjusted < LEVEL else evidence.otherwise
    return verdict if verdict.why else replace(verdict, why=f"adjusted p {p_text(adjusted)}")


def evidence(contrasts: Sequence[Contrast], study: Study, loss: Loss) -> Evidence:
    """What a study says of contrasts that a claim says are all below 0."""
    runs = losses(study, loss)
    estimates = [(sums.name, contrast(sums.weights, runs, paired=study.figure.paired)) for sums in contrasts]
    known = [(name, estimate) for name, estimate in estimates if estimate is not None]
    all_run = all(key in runs for sums in contrasts for key, weight in sums.weights.items() if weight)
    missing = "unfinished" if all_run else "not all its models were run"
    if not known:
        unmeasured = Verdict("undecided", missing)
        return Evidence(None, unmeasured, unmeasured)
    measured = _differences(known)
    seeds = min(estimate.seeds for _, estimate in known)
    tested = [(estimate.mean, p) for _, estimate in known if (p := estimate.p) is not None]
    above = [p for mean, p in tested if mean > 0]
    if all(estimate.seeds == 1 for _, estimate in known):
        otherwise = Verdict("one run", "" if len(known) == len(estimates) else missing, measured, seeds)
    elif len(known) < len(estimates):
        otherwise = Verdict("undecided", missing, measured, seeds)
    else:
        reason = ""
        if seeds < FEWEST:
            reason = f"a model has fewer than {FEWEST} seeds"
        elif len(tested) < len(estimates):
            reason = "seeds change nothing"
        otherwise = Verdict("undecided", reason, measured, seeds)
    if above:
        return Evidence(min(1.0, len(estimates) * min(above)), Verdict("does not hold", "", measured, seeds), otherwise)
    if len(tested) == len(estimates):
        return Evidence(max(p for _, p in tested), Verdict("holds", "", measured, seeds), otherwise)
    return Evidence(1.0 if tested else None, otherwise, otherwise)


def _differences(known: Sequence[tuple[str, Estimate]]) -> str:
    """The measured contrasts as text; of many, how many are below 0 and the one that is nearest to failing."""
    if len(known) <= MOST:
        return "; ".join(f"{name}: {estimate.signed_text}" for name, estimate in known)
    name, nearest = max(known, key=lambda pair: pair[1].mean / (pair[1].half or 1))
    below = sum(estimate.mean < 0 for _, estimate in known)
    return f"{below} of {len(known)} below 0; the least: {name}: {nearest.signed_text}"

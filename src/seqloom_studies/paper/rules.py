"""Rules: which differences of a study's losses a claim says are below 0 (`verdicts`)."""

from math import inf, log2
from statistics import fmean

from seqloom_studies.paper.compared import PEER, Key, call_series, losses, name_line
from seqloom_studies.paper.page_rows import Study
from seqloom_studies.paper.verdicts import Contrast, Rule

ONE, MANY = "attention-heads=1", PEER
ALLOWED = "1 head - 32 heads"
"""the largest excess that still counts as close: the paper calls this difference slight"""


def below(*pairs: tuple[str, str]) -> Rule:
    """The first of each pair has the lower loss, wherever the study has it: at every context, at every depth."""
    return lambda study: [
        Contrast(f"{call_series(lower)} - {name_line(study, (higher, x))}", {(lower, x): 1, (higher, x): -1})
        for lower, higher in pairs
        for x in _points(study, lower)
    ]


def close_to(*pairs: tuple[str, str]) -> Rule:
    """The loss of the first of each pair is below that of the second and `ALLOWED` together."""

    def rule(study: Study) -> list[Contrast]:
        contrasts = []
        for first, second in pairs:
            weights: dict[Key, float] = {(first, None): 1}
            for series, weight in ((second, -1), (ONE, -1), (MANY, 1)):
                weights[series, None] = weights.get((series, None), 0) + weight
            contrasts.append(Contrast(f"{call_series(first)} - {call_series(second)} - ({ALLOWED})", weights))
        return contrasts

    return rule


def slope(label: str, *terms: tuple[str, float]) -> Rule:
    """A weighted sum of series falls over the logarithm of what the study varies: the slope of least squares.

    A term whose series is "" stands for every series of the study.
    """

    def rule(study: Study) -> list[Contrast]:
        logs = {x: log2(x) for x in _points(study, terms[0][0]) if x}
        middle = sum(logs.values()) / max(len(logs), 1)
        squares = sum((log - middle) ** 2 for log in logs.values())
        present = {line.series for line in study.lines}
        if not squares or any(series not in ("", *present) for series, _ in terms):
            return [Contrast(label, {(series, None): weight for series, weight in terms})]
        weights: dict[Key, float] = {
            (line.series, line.x): weight * (logs[line.x] - middle) / squares
            for series, weight in terms
            for line in study.lines
            if series in ("", line.series) and line.x in logs
        }
        return [Contrast(label, weights)]

    return rule


def at_best(*pairs: tuple[str, str]) -> Rule:
    """The first of each pair has the lower loss, each at the x where its own training loss is lowest."""

    def rule(study: Study) -> list[Contrast]:
        training = losses(study, "training")

        def best(series: str) -> Key:
            keys = ((series, x) for x in _points(study, series))
            return min(keys, key=lambda key: fmean(training.get(key, {}).values() or [inf]))

        best_pairs = [(best(lower), best(higher)) for lower, higher in pairs]
        return [
            Contrast(f"{name_line(study, lower)} - {name_line(study, higher)}", {lower: 1, higher: -1})
            for lower, higher in best_pairs
        ]

    return rule


def every(*rules: Rule) -> Rule:
    """The contrasts of all these rules together."""
    return lambda study: [contrast for rule in rules for contrast in rule(study)]


def lowest(series: str) -> Rule:
    """Its loss is below that of every other model of the study."""
    return lambda study: [
        Contrast(f"{call_series(series)} - {call_series(other)}", {(series, own_x): 1, (other, x): -1})
        for own_x in _points(study, series)
        for other, x in _others(study, series)
    ]


def highest(series: str) -> Rule:
    """Its loss is above that of every other model of the study."""
    return lambda study: [
        Contrast(f"{call_series(other)} - {call_series(series)}", {(series, own_x): -1, (other, x): 1})
        for own_x in _points(study, series)
        for other, x in _others(study, series)
    ]


def ends(study: Study) -> str:
    """The lowest and the highest line of a study, by training loss."""
    means = sorted(
        (fmean(seeds.values()), call_series(key[0])) for key, seeds in losses(study, "training").items() if seeds
    )
    return f"lowest is {means[0][1]}, highest {means[-1][1]}" if len(means) > 1 else ""


def share(study: Study) -> str:
    """In how many of the kept batches of the second half SHE's loss is lower than that of 32 heads, and the mean."""
    batches = {line.series: dict(line.seeds[0].every) for line in study.lines}
    she, many = batches.get("she", {}), batches.get(MANY, {})
    both = [step for step in she if step in many and step > study.figure.batches / 2]
    lower = sum(she[step] < many[step] for step in both)
    if not both:
        return ""
    mean = fmean(she[step] - many[step] for step in both)
    spacing = both[1] - both[0] if len(both) > 1 else 1
    thinned = f" (one in {spacing} is kept)" if spacing > 1 else ""
    return f"SHE is lower in {lower} of {len(both)} batches of the second half{thinned}, on average {mean:+.4f}"


def _others(study: Study, series: str) -> list[Key]:
    return [(line.series, line.x) for line in study.lines if line.series != series]


def _points(study: Study, series: str) -> list[float | None]:
    """The values of x that a series has; [None] for one that the study does not have."""
    return [line.x for line in study.lines if series in ("", line.series)] or [None]

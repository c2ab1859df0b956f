"""Rules that make of a study the differences which a claim says are below 0 (verdicts.py)."""

import re
from math import inf, log2
from statistics import fmean

from docs.making.paper.verdicts import Contrast, Rule
from seqloom.report.study.compared import Key, losses
from seqloom.report.study.rows import Study

ONE, MANY = "attention-heads=1", "attention-heads=32"
ALLOWED = "1 head - 32 heads"
"""how much more is still close: the paper calls the difference that heads make slight"""


def below(*pairs: tuple[str, str]) -> Rule:
    """The first of each pair has the lower loss, wherever the study has it: at every context, at every depth."""
    return lambda plate: [
        Contrast(f"{name(a)} - {name(b)}{_at(plate, x)}", {(a, x): 1, (b, x): -1})
        for a, b in pairs
        for x in _places(plate, a)
    ]


def near(*pairs: tuple[str, str]) -> Rule:
    """The loss of the first of each pair is below that of the second and `ALLOWED` together."""

    def rule(plate: Study) -> list[Contrast]:
        found = []
        for a, b in pairs:
            weights: dict[Key, float] = {(a, None): 1}
            for series, weight in ((b, -1), (ONE, -1), (MANY, 1)):
                weights[series, None] = weights.get((series, None), 0) + weight
            found.append(Contrast(f"{name(a)} - {name(b)} - ({ALLOWED})", weights))
        return found

    return rule


def slope(label: str, *terms: tuple[str, float]) -> Rule:
    """A weighted sum of series falls over the logarithm of what the study varies: the slope of least squares.

    The series "" is all that the study has.
    """

    def rule(plate: Study) -> list[Contrast]:
        logs = {x: log2(x) for x in _places(plate, terms[0][0]) if x}
        middle = sum(logs.values()) / max(len(logs), 1)
        squares = sum((log - middle) ** 2 for log in logs.values())
        there = {line.series for line in plate.lines}
        if not squares or any(series not in ("", *there) for series, _ in terms):
            return [Contrast(label, {(series, None): weight for series, weight in terms})]
        weights: dict[Key, float] = {
            (line.series, line.x): weight * (logs[line.x] - middle) / squares
            for series, weight in terms
            for line in plate.lines
            if series in ("", line.series) and line.x in logs
        }
        return [Contrast(label, weights)]

    return rule


def at_best(*pairs: tuple[str, str]) -> Rule:
    """The first of each pair has the lower loss, each at the x where its own training loss is lowest."""

    def rule(plate: Study) -> list[Contrast]:
        known = losses(plate, "training")

        def best(series: str) -> Key:
            places = ((series, x) for x in _places(plate, series))
            return min(places, key=lambda key: fmean(known.get(key, {}).values() or [inf]))

        def named(key: Key) -> str:
            return f"{name(key[0])}{_at(plate, key[1])}"

        ends = [(best(a), best(b)) for a, b in pairs]
        return [Contrast(f"{named(a)} - {named(b)}", {a: 1, b: -1}) for a, b in ends]

    return rule


def every(*rules: Rule) -> Rule:
    """All of them."""
    return lambda plate: [contrast for rule in rules for contrast in rule(plate)]


def lowest(series: str) -> Rule:
    """Its loss is below that of every other model of the study."""
    return lambda plate: [
        Contrast(f"{name(series)} - {name(other)}", {(series, own): 1, (other, x): -1})
        for own in _places(plate, series)
        for other, x in _others(plate, series)
    ]


def highest(series: str) -> Rule:
    """Its loss is above that of every other model of the study."""
    return lambda plate: [
        Contrast(f"{name(other)} - {name(series)}", {(series, own): -1, (other, x): 1})
        for own in _places(plate, series)
        for other, x in _others(plate, series)
    ]


def name(series: str) -> str:
    """A series as the page calls it."""
    series = re.sub(r"attention-heads=(\d+)", lambda found: f"{found[1]} head{'s' * (found[1] != '1')}", series)
    return re.sub(r"\b(she|he|we|me)\b", lambda found: found[0].upper(), series)


def ends(plate: Study) -> str:
    """The lowest and the highest line of a study, by training loss."""
    known = sorted((fmean(seeds.values()), name(key[0])) for key, seeds in losses(plate, "training").items() if seeds)
    return f"lowest is {known[0][1]}, highest {known[-1][1]}" if len(known) > 1 else ""


def share(plate: Study) -> str:
    """In how many of the kept batches of the second half SHE's loss is lower than that of 32 heads, and the mean."""
    batches = {line.series: dict(line.seeds[0].every) for line in plate.lines}
    ours, theirs = batches.get("she", {}), batches.get(MANY, {})
    both = [step for step in ours if step in theirs and step > plate.figure["batches"] / 2]
    lower = sum(ours[step] < theirs[step] for step in both)
    if not both:
        return ""
    mean, every = fmean(ours[step] - theirs[step] for step in both), both[1] - both[0] if len(both) > 1 else 1
    kept = f" (one in {every} is kept)" if every > 1 else ""
    return f"SHE is lower in {lower} of {len(both)} batches of the second half{kept}, on average {mean:+.4f}"


def _others(plate: Study, series: str) -> list[Key]:
    return [(line.series, line.x) for line in plate.lines if line.series != series]


def _places(plate: Study, series: str) -> list[float | None]:
    """Where a series stands; that of one which the study does not have is None."""
    return [line.x for line in plate.lines if series in ("", line.series)] or [None]


def _at(plate: Study, x: float | None) -> str:
    return f" at {plate.figure['over']} {x:g}" if plate.figure["over"] and x is not None else ""

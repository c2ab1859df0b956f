"""Held-out cost by position in the window: what a longer context is worth to each contender."""

from seqloom.report.comparison import Comparison
from seqloom.report.curves import band
from seqloom.report.exhibit import COST, Cell, Exhibit, Panel, all_rounded, axis, names
from seqloom.report.figures import Axis, Level, Series, lines
from seqloom.report.training import line

X = "tokens seen before in the window"


def exhibits(found: Comparison) -> list[Exhibit]:
    """One figure; [] where no contender has costs by position."""
    pairs = [(each, band(each.by_position)) for each in found.contenders]
    pairs = [pair for pair in pairs if pair[1].batches]
    if not pairs:
        return []
    several = any(len(each.by_position) > 1 for each, _ in pairs)
    says = "Mean held-out cost of the token that follows 1, 2, … tokens of its window" + (
        ", averaged over the seeds; the band goes from the lowest to the highest seed." if several else "."
    )
    series = [
        Series(
            each.name, one.batches, one.mean, each.slot,
            low=one.low if len(each.by_position) > 1 else None, high=one.high if len(each.by_position) > 1 else None,
        )
        for each, one in pairs
    ]  # fmt: skip
    floor = [("floor of the text", found.text.floor)] if found.text.floor is not None else []  # others are far above
    svg = lines(
        series, title="Held-out cost by position in the window", description=says, x=Axis(X), y=Axis(COST),
        levels=[Level(*level) for level in floor],
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [each.name, *all_rounded([at, mean, low, high])]
        for each, one in pairs
        for at, mean, low, high in zip(one.batches, one.mean, one.low, one.high, strict=True)
    ]
    plot = {
        "kind": "lines",
        "x": axis(X),
        "y": axis(COST),
        "series": [line(*pair) for pair in pairs],
        "levels": floor,
    }
    head = ["contender", "tokens before", "mean", "lowest seed", "highest seed"]
    panel = Panel("by-position", X, svg, head, rows, plot)
    return [Exhibit("position", "Cost by position", says, [panel], names=names([each for each, _ in pairs]))]

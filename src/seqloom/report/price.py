"""What it costs: held-out cost against time, memory, parameters and operations, with the Pareto front of each."""

from typing import Any

from seqloom.report.answer import COST as HELD_OUT
from seqloom.report.comparison import Column, Comparison, Contender
from seqloom.report.exhibit import COST, Cell, Exhibit, Panel, axis, filename, names, rounded
from seqloom.report.figures import Axis, Point, front, points

PRICES = (
    *("ms a step", "peak MB a step", "ms a generated token", "ms a token at {}", "state bytes", "state bytes at {}"),
    *("parameters", "operations a token"),
)
AT = "ms a token at "
WIDE = 8.0
"""from this ratio of the dearest to the cheapest on, an axis is logarithmic"""


def exhibits(found: Comparison) -> list[Exhibit]:
    """One figure with a panel for each price that is known; [] where none is."""
    columns = [column for name in PRICES if (column := found.column(name.format(farthest(found))))]
    shown = [(column, _placed(found, column)) for column in columns]
    panels = [_panel(column, placed) for column, placed in shown if placed]
    if not panels:
        return []
    says = (
        "Held-out cost against what it takes; lower and further left is better. The line joins the Pareto front: "
        "the contenders that no other one beats in both."
    )
    drawn = [each for each in found.contenders if any(each in [one for one, _, _ in placed] for _, placed in shown)]
    return [Exhibit("price", "Cost against price", says, panels, "Price", names(drawn))]


def farthest(found: Comparison) -> str:
    """The greatest length, as the columns name it, after which most contenders could be timed; "" where none is."""
    half = len(found.contenders) / 2
    lengths = [column.name.removeprefix(AT) for column in found.columns if column.name.startswith(AT)]
    timed = {each: sum(one.value(AT + each) is not None for one in found.contenders) for each in lengths}
    return max(
        (each for each in lengths if timed[each] > half), key=lambda each: int(each.replace(",", "")), default=""
    )


def label(column: Column) -> str:
    """A column as the words of an axis; the unit only where the name does not say it."""
    return column.name if named(column) else f"{column.name} ({column.unit})"


def named(column: Column) -> bool:
    """Whether the name of a column says its unit already, as "peak MB a step" does; or it has none."""
    return all(word in column.name.split() for word in column.unit.split())


def _placed(found: Comparison, column: Column) -> list[tuple[Contender, float, float]]:
    """(contender, price, held-out cost) where both are known."""
    values = [(each, each.value(column.name), each.value(HELD_OUT)) for each in found.contenders]
    return [(each, x, y) for each, x, y in values if x is not None and y is not None]


def _panel(column: Column, placed: list[tuple[Contender, float, float]]) -> Panel:
    least, most = min(x for _, x, _ in placed), max(x for _, x, _ in placed)
    log = least > 0 and most / least >= WIDE
    best = front([(each.name, x, y) for each, x, y in placed])
    spans = {each.name: each.span(HELD_OUT) or (None, None) for each, _, _ in placed}
    svg = points(
        [Point(each.name, x, y, each.slot, *spans[each.name]) for each, x, y in placed],
        title=f"Held-out cost against {column.name}",
        description=column.meaning,
        x=Axis(label(column), log), y=Axis(COST), front=best,
    )  # fmt: skip
    head = ["contender", column.name, HELD_OUT, "lowest seed", "highest seed", "on the Pareto front"]
    rows: list[list[Cell]] = [
        [each.name, rounded(x), rounded(y), *(rounded(end) for end in spans[each.name]), _yes(each.name in best)]
        for each, x, y in placed
    ]
    marks: list[dict[str, Any]] = [
        {"name": each.name, "slot": each.slot, "x": rounded(x), "y": rounded(y)}
        | dict(zip(("low", "high"), (rounded(end) for end in spans[each.name]), strict=True))
        for each, x, y in placed
    ]
    plot = {"kind": "points", "x": axis(label(column), log), "y": axis(COST), "points": marks, "front": best}
    return Panel(filename("price", column.name), column.name, svg, head, rows, plot)


def _yes(true: bool) -> str:
    return "yes" if true else "no"

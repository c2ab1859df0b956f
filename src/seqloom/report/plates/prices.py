"""Held-out cost against size and time, with the Pareto front."""

from seqloom.report.exhibit import Cell, Exhibit, Panel, axis, rounded
from seqloom.report.figures import Axis, Point, front, points
from seqloom.report.plates.drawing import HELD_OUT, exhibit, names
from seqloom.report.plates.rows import Plate


def price(plate: Plate) -> Exhibit | None:
    """Held-out cost against size and time."""
    columns = (("parameters", "parameters", 1.0), ("time", "raced", 1e3))
    labels = {"parameters": "parameters of the whole model", "time": "ms a training step, all by turns"}
    panels = [_points(plate, name, column, factor, labels[name]) for name, column, factor in columns]
    says = "Held-out cost after all batches; lower and further left is better. The line joins the Pareto front."
    bars = " The bar goes from the lowest to the highest seed." if plate.several else ""
    return exhibit(plate, "price", "Held-out cost against price", says + bars, panels, names(plate.lines))


def _points(plate: Plate, name: str, column: str, factor: float, label: str) -> Panel | None:
    found = [(one, one.mean(column), one.mean("held_out"), one.span("held_out") or (None, None)) for one in plate.lines]
    known = [(one, factor * x, y, span) for one, x, y, span in found if x is not None and y is not None]
    if not known:
        return None
    best = front([(one.name, x, y) for one, x, y, _ in known])
    svg = points(
        [Point(one.name, x, y, one.slot, *span) for one, x, y, span in known],
        title=f"Held-out cost against {label}", description=plate.figure["says"], x=Axis(label), y=Axis(HELD_OUT),
        front=best,
    )  # fmt: skip
    rows: list[list[Cell]] = [[one.name, *(rounded(v) for v in (x, y, *span))] for one, x, y, span in known]
    marks = [
        {"name": one.name, "slot": one.slot, "x": rounded(x), "y": rounded(y)}
        | {"low": rounded(span[0]), "high": rounded(span[1])}
        for one, x, y, span in known
    ]
    plot = {"kind": "points", "x": axis(label), "y": axis(HELD_OUT), "points": marks, "front": best}
    head = ["model", label, "held-out cost", "lowest", "highest"]
    return Panel(f"{plate.figure['name']}-{name}", name, svg, head, rows, plot)

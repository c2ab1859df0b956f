"""What the layers do: taps over lag and attention maps as pictures, and how far back each contender looks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from seqloom.report.comparison import Comparison, Contender, View
from seqloom.report.exhibit import Cell, Exhibit, Panel, all_rounded, axis, filename, names, rounded
from seqloom.report.figures import Axis, Series, heat, lines

CELLS = 36_000
"""cells of all pictures of a page together; with more, each picture shows every second, third, … place"""
SIZE = "root mean square of the weights"


@final
@dataclass(frozen=True)
class Layer:
    """The pictures of one layer of a contender; `first` where it is the contender's first that has any."""

    contender: Contender
    number: int
    first: bool
    exhibits: list[Exhibit]


def looks_back(found: Comparison) -> list[Exhibit]:
    """How large the taps are at each lag, one panel a layer; [] where no contender has taps."""
    taps = [(each, view) for each in found.contenders for view in each.views if _is_taps(view)]
    layers = sorted({view.layer for _, view in taps})
    if not taps:
        return []
    says = "How far each contender looks back: the root mean square of its taps over the channels, by lag."
    panels = [_by_lag(layer, [pair for pair in taps if pair[1].layer == layer], says) for layer in layers]
    drawn = [each for each in found.contenders if any(each is one for one, _ in taps)]
    return [Exhibit("lags", "How far each looks back", says, panels, "Layer", names(drawn))]


def layers(found: Comparison) -> list[Layer]:
    """All views as figures, by contender and layer."""
    pictures = [view for each in found.contenders for view in each.views if len(view.axes) == 2]
    cells = sum(len(view.values) * len(_rows(view)[0]) for view in pictures)
    every = max(1, math.ceil(math.sqrt(cells / CELLS)))
    made = []
    for each in found.contenders:
        numbers = sorted({view.layer for view in each.views})
        for number in numbers:
            drawn = [_view(each, view, every) for view in each.views if view.layer == number]
            made.append(Layer(each, number, number == numbers[0], drawn))
    return made


def _is_taps(view: View) -> bool:
    return view.axes[0] == "lag" and "taps" in view.name


def _rows(view: View) -> list[list[float]]:
    """The values as rows; those of a line are rows of one value each."""
    return [row if isinstance(row, list) else [row] for row in view.values]


def _by_lag(layer: int, taps: Sequence[tuple[Contender, View]], says: str) -> Panel:
    sizes = [
        (each, [math.sqrt(math.fsum(value * value for value in row) / len(row)) for row in _rows(view)])
        for each, view in taps
    ]
    places = [list(range(len(size))) for _, size in sizes]
    svg = lines(
        [Series(each.name, place, size, each.slot) for (each, size), place in zip(sizes, places, strict=True)],
        title=f"Size of the taps of layer {layer} by lag", description=says, x=Axis("lag (tokens back)"), y=Axis(SIZE),
    )  # fmt: skip
    rows: list[list[Cell]] = [
        [each.name, lag, rounded(value)] for each, size in sizes for lag, value in enumerate(size)
    ]
    series = [
        {"name": each.name, "slot": each.slot, "x": place, "y": all_rounded(size)}
        for (each, size), place in zip(sizes, places, strict=True)
    ]
    plot = {"kind": "lines", "x": axis("lag (tokens back)"), "y": axis(SIZE), "series": series, "levels": []}
    return Panel(f"lags-of-layer-{layer}", f"layer {layer}", svg, ["contender", "lag", "size"], rows, plot)


def _view(each: Contender, view: View, every: int) -> Exhibit:
    name = filename(each.name, each.slot, "layer", view.layer, view.name)
    title = f"{view.name}, layer {view.layer} of {each.name}"
    if len(view.axes) == 1:
        return Exhibit(name, view.name, view.meaning, [_line(each, view, name, title)])
    says = view.meaning if every == 1 else f"{view.meaning} Every {every}th place of both axes is shown."
    return Exhibit(name, view.name, says, [_picture(view, name, title, says, every)])


def _line(each: Contender, view: View, name: str, title: str) -> Panel:
    values = [row[0] for row in _rows(view)]
    places = list(range(len(values)))
    svg = lines(
        [Series(each.name, places, values, each.slot)],
        title=title, description=view.meaning, x=Axis(view.axes[0]), y=Axis("weight"),
    )  # fmt: skip
    rows: list[list[Cell]] = [[at, rounded(value)] for at, value in enumerate(values)]
    series = [{"name": each.name, "slot": each.slot, "x": places, "y": all_rounded(values)}]
    plot = {"kind": "lines", "x": axis(view.axes[0]), "y": axis("weight"), "series": series, "levels": []}
    return Panel(name, view.name, svg, [view.axes[0], "weight"], rows, plot)


def _picture(view: View, name: str, title: str, says: str, every: int) -> Panel:
    values = [row[::every] for row in _rows(view)[::every]]
    square = view.labels and len(view.labels) == len(view.values) == len(_rows(view)[0])
    labels = view.labels[::every] if view.labels and square else None
    signed = view.signed or any(value < 0 for row in values for value in row)
    down, across = view.axes
    svg = heat(
        values, title=title, description=says, x=across, y=down, signed=signed, labels=labels
    )  # fmt: skip
    columns = [str(at * every) for at in range(len(values[0]))]
    head = [f"{down} \\ {across}", *(_numbered(labels, columns) if labels else columns)]
    rows: list[list[Cell]] = [[at * every, *all_rounded(row)] for at, row in enumerate(values)]
    z = [[_short(value) for value in row] for row in values]
    plot = {"kind": "heat", "x": axis(across), "y": axis(down), "z": z, "every": every}
    return Panel(name, view.name, svg, head, rows, plot | {"signed": signed, "labels": labels})


def _numbered(labels: Sequence[str], columns: Sequence[str]) -> list[str]:
    return [f"{column} {label!r}" for column, label in zip(columns, labels, strict=True)]


def _short(value: float) -> float | int:
    """Three digits: a picture has no more."""
    short = float(f"{value:.3g}")
    return int(short) if short.is_integer() else short

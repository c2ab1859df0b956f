"""Views of the layers: taps and attention as maps, other weights as curves, and the reach of every model."""

import math
from dataclasses import dataclass
from functools import partial
from typing import final

from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, filename, round_number
from seqloom.report.charts.picture import picture
from seqloom.report.comparison import Candidate, Comparison, View

CELLS = 36_000
"""cells of all maps of a page together; with more, each map has every second, third, … row and column"""
LOOK_FOR = (
    (("weights", "attention to"), "each row is a token, each column what it reads: a dark diagonal is its neighbors, a "
     "dark column a token that all later ones read"),
    (("erase", "write"), "where both are high, the token replaces what its key had stored; where both are near 0, it "
     "leaves the table as it is"),
    (("taps", "kernel", "filter", "response", "biases"), "how far from lag 0 the weights stay large is how far back it "
     "looks; they are the same for every token, whatever the text says"),
    (("forget gate", "decay", "memory gate", "time scale", "step", "rate", "frequency"), "a channel that keeps nearly "
     "all at each token remembers for long, one that keeps little forgets at once: look for both"),
    (("gate",), "where a gate opens, the token is written or read out: look for tokens at which many channels open"),
    (("state", "memory"), "what stays alike from token to token is remembered, what changes at each is not"),
    (("reach",), "dark cells are the earlier tokens that its output depends on, measured alike for every mixer"),
)  # fmt: skip
"""what to look for in the views of a mixer, by words in their names: the first line that has one"""
HEADINGS = {"reach": "reach: how far back it looks"}
"""what readers see above a view, where its name alone does not say it"""
OTHER = "large numbers are where the layer does most; compare its first layer with its last"
SIZE = Axis("size", "root mean square of the weights")


@final
@dataclass(frozen=True)
class Map:
    """A view over two axes as a picture, with its numbers; `labels` are the tokens of both axes, where they are few."""

    name: str
    heading: str
    description: str
    down: str
    across: str
    picture: str
    table: Table
    labels: list[str]
    signed: bool
    most: float


@final
@dataclass(frozen=True)
class Layer:
    """The views of one layer of a contender."""

    name: str
    number: int
    first: bool
    """whether it is the contender's first that has any"""
    look_for: str
    """at the contender's first layer, a sentence on what its views show"""
    charts: list[Chart]
    maps: list[Map]


def looks_back(rows: Comparison) -> list[Chart]:
    """How large the taps are at each lag, one choice per layer; [] where no contender has taps."""
    taps = [(contender, view) for contender in rows.contenders for view in contender.views if _is_taps(view)]
    if not taps:
        return []
    points: list[list[Cell]] = []
    for contender, view in taps:
        sizes = [math.sqrt(math.fsum(value * value for value in row) / len(row)) for row in _rows(view)]
        points += [[contender.name, view.layer, lag, round_number(size)] for lag, size in enumerate(sizes)]
    table = Table(["model", "layer", "lag", "size"], points)
    numbers = sorted({view.layer for _, view in taps})
    choices = [Choice(f"layer {number}", partial(_of_layer, table, rows, number)) for number in numbers]
    description = "The root mean square of the taps over the channels, by lag."
    return [Chart("lags", "How far back each model looks", description, {"rows": table}, choices, "Layer")]


def layers(rows: Comparison) -> list[Layer]:
    """All views, by contender and layer."""
    map_views = [view for contender in rows.contenders for view in contender.views if len(view.axes) == 2]
    cells = sum(len(view.values) * len(_rows(view)[0]) for view in map_views)
    every = max(1, math.ceil(math.sqrt(cells / CELLS)))
    layers = []
    for contender in rows.contenders:
        numbers = sorted({view.layer for view in contender.views})
        for number in numbers:
            views = [view for view in contender.views if view.layer == number]
            charts = [_line(rows, contender, view) for view in views if len(view.axes) == 1]
            maps = [_map(contender, view, every) for view in views if len(view.axes) == 2]
            sentence = look_for(contender) if number == numbers[0] else ""
            layers.append(Layer(contender.name, number, number == numbers[0], sentence, charts, maps))
    return layers


def look_for(contender: Candidate) -> str:
    """One sentence on what to look for in the views of a contender; "" where it has none."""
    names = [view.name for view in contender.views]
    for words, sentence in LOOK_FOR:
        if any(word in name for word in words for name in names):
            return f"{contender.name}: {sentence}."
    return f"{contender.name}: {OTHER}." if names else ""


def _is_taps(view: View) -> bool:
    return view.axes[0] == "lag" and "taps" in view.name


def _rows(view: View) -> list[list[float]]:
    """The values as rows; those over one axis are rows of one value each."""
    return [row if isinstance(row, list) else [row] for row in view.values]


def _of_layer(table: Table, rows: Comparison, layer: int) -> Spec:
    from seqloom.report.charts.curves import curves

    layer_table = Table(table.head, [row for row in table.rows if row[1] == layer])
    return curves(layer_table, Axis("lag", "lag (tokens back)"), SIZE, rows.styles, only=("layer", layer))


def _line(rows: Comparison, contender: Candidate, view: View) -> Chart:
    x = Axis(view.axes[0], view.axes[0])
    table = Table(
        ["model", x.column, "weight"],
        [[contender.name, index, round_number(row[0])] for index, row in enumerate(_rows(view))],
    )

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        return curves(table, x, Axis("weight", "weight"), rows.styles, height=240)

    name = filename(contender.name, "layer", view.layer, view.name)
    return Chart(name, view.name, view.meaning, {"rows": table}, [Choice(view.name, draw)])


def _map(contender: Candidate, view: View, every: int) -> Map:
    """A view over two axes, of which every `every`-th row and column is shown."""
    values = [row[::every] for row in _rows(view)[::every]]
    square = view.labels and len(view.labels) == len(view.values) == len(_rows(view)[0])
    labels = view.labels[::every] if view.labels and square else []
    signed = view.signed or any(value < 0 for row in values for value in row)
    down, across = view.axes
    columns = [str(index * every) for index in range(len(values[0]))]
    names = [f"{column} {label!r}" for column, label in zip(columns, labels, strict=True)] if labels else columns
    numbers = [[index * every, *(_short(value) for value in row)] for index, row in enumerate(values)]
    return Map(
        name=filename(contender.name, "layer", view.layer, view.name),
        heading=HEADINGS.get(view.name, view.name),
        description=view.meaning if every == 1 else f"{view.meaning} Of {every} rows and columns one is shown.",
        down=down,
        across=across,
        picture=picture(values, signed=signed),
        table=Table([f"{down} \\ {across}", *names], numbers),
        labels=labels,
        signed=signed,
        most=_short(max(abs(value) for row in values for value in row)),
    )


def _short(value: float) -> float | int:
    """Three digits, as many as a color can show."""
    short = float(f"{value:.3g}")
    return int(short) if short.is_integer() else short

"""Maps over two axes: numbers as coloured cells, a specification whose cells are marks."""

import altair as alt

from seqloom.report.charts.chart import Spec, Table
from seqloom.report.charts.encodings import data
from seqloom.report.charts.picture import DEPTHS


def grid(table: Table, x: str, y: str, value: str, *, decades: int) -> Spec:
    """Cells of data called `rows` over the whole numbers `x` and `y`, with the smallest y on top.

    The colour is the logarithm of `value`, from the largest value down to 10^-decades of it; less is palest.
    """
    most, count = max(table.numbers(value)), int(max(table.numbers(x))) + 1
    scale = alt.Scale(type="log", domain=[most / 10**decades, most], range=list(DEPTHS), clamp=True)
    ticks = alt.Axis(values=list(range(0, count, max(1, count // 4))), labelAngle=0, domain=False)
    cells = data("rows").mark_rect().encode(
        alt.X(x, type="ordinal", axis=ticks, scale=alt.Scale(domain=list(range(count)))),
        alt.Y(y, type="ordinal", axis=ticks, scale=alt.Scale(domain=list(range(count)))),
        alt.Color(value, type="quantitative", scale=scale, legend=alt.Legend(
            orient="right", format=".0e", values=[most / 10**at for at in range(decades + 1)], gradientLength=200)),
    )  # fmt: skip
    return cells.properties(height=300).to_dict(validate=False)

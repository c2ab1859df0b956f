"""Maps over two axes: numbers as coloured cells, a specification whose cells are marks."""

import altair as alt

from seqloom.report.charts.chart import Spec
from seqloom.report.charts.encodings import data
from seqloom.report.charts.picture import DEPTHS


def grid(x: str, y: str, value: str, count: int, *, decades: int) -> Spec:
    """Cells of data called `rows` over the whole numbers `x` and `y` below `count`, with the smallest y on top.

    The colour is the logarithm of `value`, from 1 down to 10^-decades; less is palest, and cells without a row blank.
    """
    scale = alt.Scale(type="log", domain=[10.0**-decades, 1], range=list(DEPTHS), clamp=True)
    names = [str(at) for at in range(count)]  # as text, as CSV has them; numbers would match none
    cells = alt.Scale(domain=names)
    ticks = alt.Axis(values=names[:: max(1, count // 4)], labelAngle=0, domain=False)
    legend = alt.Legend(
        orient="right", format=".3~f", values=[10.0**-at for at in range(decades + 1)], gradientLength=200
    )
    marks = data("rows").mark_rect(stroke=None).encode(
        alt.X(x, type="ordinal", axis=ticks, scale=cells),
        alt.Y(y, type="ordinal", axis=ticks, scale=cells),
        alt.Color(value, type="quantitative", scale=scale, legend=legend),
    )  # fmt: skip
    return marks.properties(height=300).to_dict(validate=False)

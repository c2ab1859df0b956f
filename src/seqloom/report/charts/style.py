"""How charts look: one color per mixer, a dash and a mark per variant of it, and the colors of light and dark paper.

The twelve colors were searched for the largest least distance (in OKLab) between any two, as seen with full color
vision and with protanopia, deuteranopia and tritanopia, among colors of at least 3:1 against the paper. Charts are
written in the light colors; `DARK` has the dark one for each of them.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final
from zlib import crc32

PAPER, INK, FAINT, MUTED = "#ffffff", "#1b1f24", "#e1e4e8", "#57606a"
SERIES = (
    "#27409a", "#7d4531", "#16a085", "#cf5ecf", "#a58e08", "#783cc3",
    "#1f7499", "#f14f6e", "#607401", "#ad3868", "#4c3195", "#572a0b",
)  # fmt: skip
DARK = dict(
    zip(
        (PAPER, INK, FAINT, MUTED, *SERIES),
        (
            "#14171c", "#e6e8eb", "#30363e", "#9da7b3",
            "#5b79f5", "#de765e", "#5ff0e4", "#d299c9", "#e5e577", "#9476a8",
            "#7ecafd", "#f8b7b9", "#b3bf71", "#d8457a", "#8e93fb", "#b4620f",
        ),
        strict=True,
    )
)  # fmt: skip
"""the color on dark paper of each color on light paper"""
COLORS = {
    kind: color
    for color, kinds in enumerate((
        "attention linear lssl ssm", "rwkv rnn s4d dynamic_conv", "he he_extraction aft_conv", "me performer s5",
        "we lightweight_conv spade", "retention lstm gss", "gru aft_simple extractor", "she aft_full", "mamba rfa",
        "gla s6 aft_local", "s4 modal_extractor", "hyena",
    ))
    for kind in kinds.split()
}  # fmt: skip
"""the number of each mixer's color, by its kind; kinds that are not listed have one by their name alone"""
POSITIONS = (
    "", "learned", "shaw", "transformer_xl", "alibi", "rotary",
    "xpos", "sinusoidal", "", "da", "t5", "learned_each_layer",
)  # fmt: skip
"""the position of each color, of models that differ in their positions alone"""
COLORS |= {kind: color for color, kind in enumerate(POSITIONS) if kind}
DASHES = ((1, 0), (7, 3), (2, 3), (9, 3, 2, 3), (14, 4), (5, 2, 1, 2, 1, 2), (1, 5), (12, 3, 3, 3, 3, 3))
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
FONT = "system-ui, -apple-system, Segoe UI, Roboto, DejaVu Sans, sans-serif"
SIZE = 13
"""pixels of a chart's text"""


@final
@dataclass(frozen=True)
class LineStyle:
    """How one model is drawn: the number of its color, the dash of its line, and the shape of its mark."""

    number: int
    dash: Sequence[int]
    shape: str

    @property
    def color(self) -> str:
        """Its color on light paper."""
        return SERIES[self.number]


def kind_of(name: str) -> str:
    """The mixer of a model as its name has it: `attention` of "attention-heads=32", `he` of "he, no adjustment"."""
    return (re.match(r"\w+", name) or [""])[0]


def styles(names: Sequence[str], kinds: Mapping[str, str] | None = None) -> dict[str, LineStyle]:
    """The style of each model, by name. Its color depends on its mixer alone, whatever other models there are.

    Models whose mixers share a color, such as two variants of one mixer, differ in dash and mark. `kinds` are the
    mixers of models whose names do not begin with it.
    """
    models_by_color: dict[int, int] = {}
    styles_by_name = {}
    for name in names:
        kind = (kinds or {}).get(name) or kind_of(name)
        color = COLORS.get(kind, crc32(kind.encode()) % len(SERIES))
        variant = models_by_color.get(color, 0)
        models_by_color[color] = variant + 1
        styles_by_name[name] = LineStyle(color, DASHES[variant % len(DASHES)], SHAPES[(color + variant) % len(SHAPES)])
    return styles_by_name


def config(background: str | None = None) -> dict[str, Any]:
    """The settings that all charts share, as Vega-Lite has them; without `background` they are transparent."""
    text = {"labelFontSize": SIZE - 1, "titleFontSize": SIZE, "labelColor": MUTED, "titleColor": INK}
    return {
        "background": background or "transparent",
        "font": FONT,
        "view": {"stroke": None},
        "axis": text | {"gridColor": FAINT, "domainColor": MUTED, "tickColor": FAINT, "titleFontWeight": "normal"},
        "legend": text | {"title": None, "orient": "bottom", "symbolStrokeWidth": 2.5, "symbolSize": 160,
                          "columns": 4, "labelLimit": 220, "columnPadding": 18, "labelColor": INK},
        "text": {"color": INK, "fontSize": SIZE},
        "title": {"color": INK, "subtitleColor": MUTED, "anchor": "start", "fontSize": SIZE + 2, "offset": 12},
    }  # fmt: skip


def css() -> str:
    """The variables --paper, --ink, --faint, --muted and --series-0 … --series-11 of a page, light and dark."""
    names = ["paper", "ink", "faint", "muted", *(f"series-{k}" for k in range(len(SERIES)))]
    light, dark = (
        "".join(f"--{name}:{color};" for name, color in zip(names, colors, strict=True))
        for colors in (DARK.keys(), DARK.values())
    )
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;{dark}}}}}"
    )

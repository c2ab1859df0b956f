"""The price of a mixer by length: multiplications per token against the number of tokens."""

import torch

from seqloom.core.cost import Cost
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.table import markdown
from seqloom.mixers import mixer_config
from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Table
from seqloom.report.charts.curves import curves
from seqloom.report.charts.draw import svg
from seqloom.report.charts.style import styles

DIM = 128
LENGTHS = (128, 1024, 8192, 65536)
"""tokens of the table; the curve has all powers of two between the first and the last"""


def price(config: MixerConfig, T: int) -> tuple[Cost, Cost | None]:
    """Prices of a row of T tokens and of token T, with a context of T; None for a mixer that reads whole rows only."""
    causal = config.traits.causal != "never"
    with torch.device("meta"):
        mixer = config.build(DIM, T, causal)
    return mixer.cost(T), mixer.cost(T, per="token") if causal else None


def by_length(config: MixerConfig) -> str:
    """A table of Markdown: the price at some lengths."""
    rows: list[tuple[object, ...]] = []
    for T in LENGTHS:
        row, token = price(config, T)
        token_counts = ("-", "-") if token is None else (f"{token.mul:,}", f"{token.state:,}")
        rows.append((f"{T:,}", f"{round(row.mul / T):,}", *token_counts))
    head = (
        "tokens T",
        "multiplications per token, mean of T tokens",
        "multiplications of token T",
        "numbers in the state",
    )
    return markdown(head, rows)


def curve(kind: str) -> str:
    """The price by length as a chart, next to that of attention: the text of an SVG file."""
    lengths = [1 << power for power in range(LENGTHS[0].bit_length() - 1, LENGTHS[-1].bit_length())]
    rows: list[list[Cell]] = []
    for name in dict.fromkeys((kind, "attention")):
        for T in lengths:
            row, token = price(mixer_config({"kind": name}), T)
            if token is not None:
                rows.append([f"{name}: token T", T, token.mul])
            rows.append([f"{name}: mean of a row", T, row.mul / T])
    x, y = Axis("tokens T", "tokens T", log=True), Axis("multiplications", "multiplications per token", log=True)
    table = Table(["model", x.column, y.column], rows)
    styles_by_name = styles(list(dict.fromkeys(str(row[0]) for row in rows)))
    title = f"Price of {kind} by length, dim {DIM}"
    words = "Multiplications of the equation: those of token T alone, and the mean over T tokens."
    choice = Choice(title, lambda: curves(table, x, y, styles_by_name))
    return svg(Chart("price", title, words, {"rows": table}, [choice]))

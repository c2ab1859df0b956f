"""What length costs a mixer: multiplications a token against the number of tokens."""

import torch

from docs.making.tables import table
from seqloom.core.cost import Cost
from seqloom.core.mixer_config import MixerConfig
from seqloom.mixers import kinds
from seqloom.report.figures import Axis, Series, lines, standalone

DIM = 128
LENGTHS = (128, 1024, 8192, 65536)
"""tokens of the table; the curve has all powers of two between the first and the last"""


def price(config: MixerConfig, T: int) -> tuple[Cost, Cost]:
    """Of a row of T tokens and of token T, where the mixer looks back on all of them as far as it can."""
    with torch.device("meta"):
        mixer = config.build(DIM, T)
    return mixer.cost(T), mixer.cost(T, per="token")


def by_length(config: MixerConfig) -> str:
    """A table of Markdown: the price at some lengths."""
    rows: list[tuple[object, ...]] = []
    for T in LENGTHS:
        whole, token = price(config, T)
        rows.append((f"{T:,}", f"{round(whole.mul / T):,}", f"{token.mul:,}", f"{token.state:,}"))
    head = ("tokens T", "multiplications a token, in a row of T", "of token T alone", "numbers of state")
    return table(head, rows)


def curve(kind: str) -> str:
    """The same as a figure, an SVG file; attention's are beside those of another mixer."""
    lengths = [1 << power for power in range(LENGTHS[0].bit_length() - 1, LENGTHS[-1].bit_length())]
    series = []
    for slot, name in enumerate(dict.fromkeys((kind, "attention"))):
        found = [price(kinds()[name](), T) for T in lengths]
        whole, token = [each.mul / T for (each, _), T in zip(found, lengths, strict=True)], [b.mul for _, b in found]
        series += [
            Series(f"{name}: token T", lengths, token, slot),
            Series(f"{name}: mean of a row", lengths, whole, slot, dashed=True),
        ]
    return standalone(
        lines(
            series,
            title=f"Price of {kind} by length, dim {DIM}",
            description="Multiplications of the equation for a token: of token T alone, and in the mean of T tokens.",
            x=Axis("tokens T", log=True), y=Axis("multiplications a token", log=True),
        )
    )  # fmt: skip

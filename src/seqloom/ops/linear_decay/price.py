"""The price of the decaying sum, the same for every token."""

from typing import Literal

from seqloom.core.cost import Cost


def price(rows: int, H: int, K: int, V: int, decay: Literal["none", "head", "channel"] = "none") -> Cost:
    """The price of `rows` tokens in H heads with keys of width K and values of width V: e^g, e^g S, kᵀ v, and q S."""
    numbers = H * K * V
    return Cost(
        mul=rows * numbers * (2 if decay == "none" else 3),
        add=rows * (numbers + H * (K - 1) * V),
        exp=rows * {"none": 0, "head": H, "channel": H * K}[decay],
        path=("multiplication", "addition", "multiplication", "cumulation"),
    )

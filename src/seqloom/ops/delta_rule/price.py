"""The price of the delta rule, the same for every token."""

from typing import Literal

from seqloom.core.cost import Cost


def price(
    rows: int, H: int, K: int, V: int, decay: Literal["none", "head", "channel"] = "none", write: bool = False
) -> Cost:
    """The price of `rows` tokens in H heads: erase S, e^g and its product with S, the write, and q S.

    `write`: whether the write key differs from k.
    """
    numbers = H * K * V
    return Cost(
        mul=rows * numbers * (3 + (decay != "none") + write),
        add=rows * (2 * H * (K - 1) * V + (2 * numbers if write else numbers + H * V)),
        exp=rows * {"none": 0, "head": H, "channel": H * K}[decay],
        path=("multiplication", "cumulation", "addition", "multiplication", "addition", "multiplication", "cumulation"),
    )

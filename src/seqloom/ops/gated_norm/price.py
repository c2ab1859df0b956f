"""The price of a norm of heads and its gate."""

from seqloom.core.cost import Cost, gate, rootnorm


def price(rows: int, heads: int, width: int, gated: bool) -> Cost:
    """The price for `rows` tokens."""
    normed = rootnorm(rows * heads, width)
    return gate(rows * heads * width) + normed if gated else normed

"""What a norm of heads and its gate cost."""

from seqloom.core.cost import Cost, gate, rootnorm


def price(rows: int, heads: int, width: int, gated: bool) -> Cost:
    """Of so many tokens."""
    normed = rootnorm(rows * heads, width)
    return gate(rows * heads * width) + normed if gated else normed

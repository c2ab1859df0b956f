"""What a norm with a skip and a gate costs."""

from seqloom.core.cost import Cost, gate, layernorm


def price(rows: int, heads: int, width: int) -> Cost:
    """Of so many tokens."""
    n = rows * heads * width
    skipped = Cost(mul=2 * n, add=n, path=("multiplication", "addition"))
    return layernorm(rows * heads, width, gain=False, bias=False) + skipped + gate(n)

"""The price of forgetting attention: attention, and the addition of the cumulative gates to each score."""

from seqloom.core.cost import Cost
from seqloom.ops.attention import price as attention


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head."""
    return Cost(add=heads * terms) + attention.price(rows, terms, dim, heads, bias=True)

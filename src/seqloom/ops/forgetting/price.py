"""What attention that forgets costs: attention, a sum that grows by a gate for each pair, and its addition."""

from seqloom.core.cost import Cost
from seqloom.ops.attention import price as attention


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """Of `rows` queries that look at `terms` keys in all, per head."""
    return Cost(add=heads * terms) + attention.price(rows, terms, dim, heads, bias=True)

"""The price: products with all old keys, a comparison of each product, and attention to the keys that are read."""

from seqloom.core.cost import Cost


def price(rows: int, terms: int, read: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries with `terms` old keys in all, of which they read `read`, per head."""
    K = dim // heads
    return Cost(
        mul=dim * (terms + read),
        add=heads * (terms * (K - 1) + (read - rows) + (read - rows) * K),
        div=2 * heads * read,
        exp=heads * read,
        other=heads * terms,
        path=(
            *("multiplication", "cumulation", "other", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )

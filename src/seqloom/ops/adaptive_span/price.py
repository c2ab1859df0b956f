"""The price of attention under a soft mask: that of attention, and of the mask of every key in the window."""

from seqloom.core.cost import Cost


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head."""
    K, pairs, numbers = dim // heads, heads * terms, terms * dim
    return Cost(
        mul=2 * numbers + pairs,  # scores, values; the mask's weights
        add=pairs * (K - 1) + heads * rows + pairs + (pairs - heads * rows) + (terms - rows) * dim,
        div=3 * pairs,  # scores by √K, the ramp, the sum
        exp=pairs,
        other=pairs,  # the clip
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "multiplication", "cumulation"),
            *("division", "multiplication", "cumulation"),
        ),
    )

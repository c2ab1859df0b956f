"""The price of additive attention: a tanh for each pair and channel, their sum, a softmax, and the sum of values."""

from seqloom.core.cost import Cost


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head. A tanh is (e^2x - 1) / (e^2x + 1)."""
    K, pairs, numbers = dim // heads, heads * terms, terms * dim
    return Cost(
        mul=numbers + numbers + numbers,  # in tanh, by w, by the values
        add=numbers + 2 * numbers + pairs * (K - 1) + (pairs - heads * rows) + (terms - rows) * dim,
        div=numbers + pairs,
        exp=numbers + pairs,
        path=(
            *("addition", "multiplication", "exponentiation", "addition", "division"),
            *("multiplication", "cumulation", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )

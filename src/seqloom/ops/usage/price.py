"""The price: scores and their softmax, and each key's sum."""

from seqloom.core.cost import Cost


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, with the mean over heads."""
    K, scores = dim // heads, heads * terms
    return Cost(
        mul=terms * dim,
        add=scores * (K - 1) + scores - heads * rows + scores,
        div=2 * scores + terms,
        exp=scores,
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("cumulation", "division", "cumulation"),
        ),
    )

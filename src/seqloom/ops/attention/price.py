"""What attention costs: scores, their softmax, and the sum of the values."""

from seqloom.core.cost import Cost


def price(rows: int, terms: int, dim: int, heads: int) -> Cost:
    """Of `rows` queries that look at `terms` keys in all, per head.

    Tables 3 and 5 of the Extractor paper; docs/errata.md corrects 5.
    """
    K = dim // heads
    return Cost(
        mul=2 * terms * dim,
        add=heads * (terms * (K - 1) + (terms - rows) * K + terms - rows),
        div=2 * heads * terms,
        exp=heads * terms,
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )

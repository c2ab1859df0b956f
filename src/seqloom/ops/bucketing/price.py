"""The price of attention inside buckets: scores of all slots in reach, their masks, and the sums.

Which slots hold another bucket or a later token depends on the data, so masked scores are counted too.
"""

from seqloom.core.cost import Cost


def price(tokens: int, terms: int, width: int, values: int) -> Cost:
    """The price of `tokens` tokens that read `terms` slots in all, over all heads, if every token has one slot.

    `width` is the width of keys, `values` that of values.
    """
    return Cost(
        mul=terms * (width + values),
        add=terms * (width - 1) + (terms - tokens) * (1 + values),
        div=terms,
        exp=terms,
        other=terms,  # masks
        path=(
            *("multiplication", "cumulation", "other", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )


def scattered(tokens: int, terms: int, width: int, values: int) -> Cost:
    """As `price`, if tokens have any number of slots: the sums of each slot, then those of each token."""
    return Cost(
        mul=terms * (width + values),
        add=terms * (width - 1) + terms * (1 + values),
        div=tokens * values,
        exp=terms,
        other=terms + 2 * tokens,  # masks; tokens without a slot
        path=(
            *("multiplication", "cumulation", "other", "exponentiation", "multiplication", "cumulation"),
            *("cumulation", "other", "division"),
        ),
    )


def clustered(vectors: int, width: int, clusters: int, others: int) -> Cost:
    """The price of assigning `vectors` vectors: products with all centroids, and comparisons of each product."""
    n = vectors * clusters
    return Cost(mul=n * width, add=n * (width - 1), other=others, path=("multiplication", "cumulation", "other"))


def unit(vectors: int, width: int) -> Cost:
    """The price of normalizing `vectors` vectors: squares, their sum and ε, an inverse root, and a product."""
    return Cost(
        mul=2 * vectors * width,
        add=vectors * width,
        div=vectors,
        other=vectors,
        path=("multiplication", "cumulation", "addition", "other", "division", "multiplication"),
    )


def hashed(vectors: int, width: int, rounds: int, buckets: int) -> Cost:
    """The price of hashing `vectors` vectors: products with `buckets` / 2 directions per round, and the largest."""
    half = rounds * buckets // 2
    return Cost(
        mul=vectors * half * width,
        add=vectors * half * (width - 1),
        other=vectors * rounds * 2 * (buckets // 2),
        path=("multiplication", "cumulation", "other", "other"),
    )

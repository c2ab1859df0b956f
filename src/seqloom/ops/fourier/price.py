"""The price of the transform as matrix products with given cosines and sines; fast transforms execute fewer."""

from seqloom.core.cost import Cost


def price(rows: int, dim: int) -> Cost:
    """The price of a row of `rows` tokens: two products over channels, two over tokens, and their difference."""
    n = rows * dim
    return Cost(
        mul=2 * n * (dim + rows),
        add=2 * n * (dim - 1 + rows - 1) + n,
        path=("multiplication", "cumulation", "multiplication", "cumulation", "addition"),
    )

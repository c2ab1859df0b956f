"""What the transform costs as it is written, with its cosines and sines given; the fast transforms execute less."""

from seqloom.core.cost import Cost


def price(rows: int, dim: int) -> Cost:
    """The price of a row of `rows` tokens: two products over channels, two over tokens, and their difference."""
    n = rows * dim
    return Cost(
        mul=2 * n * (dim + rows),
        add=2 * n * (dim - 1 + rows - 1) + n,
        path=("multiplication", "cumulation", "multiplication", "cumulation", "addition"),
    )

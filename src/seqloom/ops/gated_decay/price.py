"""What the gates cost besides their matrix, which is a part of the mixer and carries its own price."""

from seqloom.core.cost import Cost, Step, sigmoid


def price(numbers: int) -> Cost:
    """The price for so many elements of u: two sigmoids, softplus(Λ), log a, a, 1 - a², its root, and two products."""
    path: tuple[Step, ...] = (
        "multiplication",
        "multiplication",
        "exponentiation",
        "addition",
        "other",
        "multiplication",
    )
    rest = Cost(mul=5 * numbers, add=2 * numbers, exp=3 * numbers, other=3 * numbers, path=path)
    return sigmoid(2 * numbers) + rest

"""The price of the sLSTM for `rows` tokens and N units, the same for every token.

The product with the matrix of the state and the bias are not included, since that matrix is a part of the mixer, which
has its own price. The sum with a_t is included.
"""

from seqloom.core.cost import Cost, Step


def price(rows: int, N: int) -> Cost:
    """Four sums, a maximum of two, two exponentials, log σ, tanh and σ, and the sums of c, n and h."""
    n = rows * N
    gates: tuple[Step, ...] = ("addition", "exponentiation", "other", "addition", "other", "addition", "exponentiation")
    path: tuple[Step, ...] = (*gates, "multiplication", "addition", "multiplication", "division")
    return Cost(mul=5 * n, add=13 * n, div=3 * n, exp=5 * n, other=2 * n, path=path)

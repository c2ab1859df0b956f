"""The price of the classic cells for `rows` tokens and N units, the same for every token.

The products with W_in and with the matrix of the state are not included, since these matrices are linear layers of the
mixer, which have their own price. The sum of both products is included.
"""

from seqloom.core.cost import Cost


def elman(rows: int, N: int) -> Cost:
    """The price of the Elman cell: a sum and a tanh per unit."""
    n = rows * N
    return Cost(mul=n, add=3 * n, div=n, exp=n, path=("addition", "exponentiation", "addition", "division"))


def lstm(rows: int, N: int) -> Cost:
    """The price of the LSTM cell: four sums, three sigmoids, two tanhs, three products and a sum."""
    n = rows * N
    return Cost(
        mul=(2 + 3) * n,
        add=(4 + 3 + 4 + 1) * n,
        div=5 * n,
        exp=5 * n,
        path=(
            *("addition", "exponentiation", "addition", "division"),
            *("multiplication", "addition", "exponentiation", "addition", "division", "multiplication"),
        ),
    )


def gru(rows: int, N: int, after: bool) -> Cost:
    """The price of the GRU cell: three sums, two sigmoids, a tanh, the reset, 1 - z, its two products and their sum.

    Where the reset comes `after` the matrix, the sum with b_n takes the place of the one with a_n.
    """
    n = rows * N
    matrix = () if after else ("cumulation",)
    return Cost(
        mul=(1 + 1 + 2) * n,
        add=(3 + 2 + 2 + after + 2) * n,
        div=3 * n,
        exp=3 * n,
        path=(
            *("addition", "exponentiation", "addition", "division", "multiplication", *matrix),
            *("addition", "exponentiation", "division", "multiplication", "addition"),
        ),
    )

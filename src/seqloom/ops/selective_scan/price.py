"""What a selective scan and the convolution before it cost, with all that may stand around them."""

from seqloom.core.cost import Cost, Per, lookback


def scan(rows: int, dim: int, states: int, gate: bool) -> Cost:
    """Of `rows` tokens with bias and skip: the same at every place, as a state of 0 is faded like any other.

    A is priced at each token, as a step computes it.
    """
    D, each = rows * dim, rows * dim * states
    return Cost(
        mul=4 * each + (2 + gate) * D,
        add=2 * each + (2 + gate) * D,
        div=gate * D,
        exp=2 * each + (1 + gate) * D,
        other=2 * D,  # the logarithm of softplus, and a sign
        params=(states + 2) * dim,
        state=states * dim,
        path=("exponentiation", "multiplication", "addition", "multiplication", "cumulation", "addition"),
    )


def convolution(T: int, dim: int, width: int, per: Per) -> Cost:
    """Of T tokens or the token at place T: the first ones have fewer inputs before them."""
    rows, terms = lookback(T, width, per)
    return Cost(
        mul=terms * dim,
        add=(terms + rows) * dim,  # with the bias, and the sum in silu
        div=rows * dim,
        exp=rows * dim,
        params=(width + 1) * dim,
        state=(width - 1) * dim,
        path=("multiplication", "cumulation", "exponentiation", "division"),
    )

"""The price of a selective scan and the convolution before it, with all that may stand around them."""

from seqloom.core.cost import Cost, Span


def scan(rows: int, dim: int, states: int, gate: bool) -> Cost:
    """The price of `rows` tokens with skip, equal at every position: a state of 0 decays like any other.

    A is priced priced per token, as in a step. Δ's bias is priced with the projection that it belongs to.
    """
    D, numbers = rows * dim, rows * dim * states
    return Cost(
        mul=4 * numbers + (2 + gate) * D,
        add=2 * numbers + (1 + gate) * D,
        div=gate * D,
        exp=2 * numbers + (1 + gate) * D,
        other=2 * D,  # the logarithm of softplus, and a sign
        path=("exponentiation", "multiplication", "addition", "multiplication", "cumulation", "addition"),
    )


def convolution(span: Span, dim: int, width: int, bias: bool = True, silu: bool = True) -> Cost:
    """The first tokens have fewer inputs before them."""
    rows, terms = span.rows, span.terms(width)
    return Cost(
        mul=terms * dim,
        add=(terms + rows * (bias + silu - 1)) * dim,  # with the bias, and the sum in silu
        div=rows * dim * silu,
        exp=rows * dim * silu,
        path=("multiplication", "cumulation", *(("exponentiation", "division") if silu else ())),
    )

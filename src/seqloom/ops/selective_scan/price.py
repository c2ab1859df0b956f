"""The price of a selective scan and the convolution before it, with all that may stand around them."""

from seqloom.core.cost import Cost, Span


def scan(rows: int, dim: int, states: int, gate: bool) -> Cost:
    """The price of `rows` tokens with skip, the same at every position, also at the first, whose state is 0.

    A = -e^log_rate is computed at every token, as in a step. The bias of Δ is part of the price of its projection.
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
    """The price of the convolution; the first tokens have fewer inputs."""
    rows, terms = span.rows, span.terms(width)
    return Cost(
        mul=terms * dim,
        add=(terms + rows * (bias + silu - 1)) * dim,  # with the bias, and the sum in silu
        div=rows * dim * silu,
        exp=rows * dim * silu,
        path=("multiplication", "cumulation", *(("exponentiation", "division") if silu else ())),
    )

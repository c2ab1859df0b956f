"""The price of the sums over earlier positions."""

from seqloom.core.cost import Cost, Span


def price(span: Span, dim: int, inputs: int = 1, outputs: int = 1) -> Cost:
    """The price of one row, given the number of inputs and outputs per position, each of `dim` channels."""
    terms = span.terms() * inputs
    return Cost(
        mul=terms * outputs * dim,
        add=(terms - span.rows) * outputs * dim,
        path=("multiplication", "cumulation"),
    )

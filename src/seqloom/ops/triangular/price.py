"""What the sums cost."""

from seqloom.core.cost import Cost, Span


def price(span: Span, dim: int, inputs: int = 1, outputs: int = 1) -> Cost:
    """Of one row, with so many inputs and outputs per position, each of `dim` channels."""
    terms = span.terms() * inputs
    return Cost(
        mul=terms * outputs * dim,
        add=(terms - span.rows) * outputs * dim,
        path=("multiplication", "cumulation"),
    )

"""What attention costs: scores, their softmax, and the sum of the values."""

from seqloom.core.cost import Cost, Span


def price(span: Span, dim: int, heads: int, context: int | None) -> Cost:
    """Of queries, keys and values that are given. Tables 3 and 5 of the Extractor paper; docs/errata.md corrects 5."""
    rows, terms, K = span.rows, span.terms(context), dim // heads
    return Cost(
        mul=2 * terms * dim,
        add=heads * (terms * (K - 1) + (terms - rows) * K + terms - rows),
        div=2 * heads * terms,
        exp=heads * terms,
        path=(
            *("multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )

"""The price of a running average, the same at every token but the first, before which there are no sums."""

from seqloom.core.cost import Cost, Span


def price(span: Span, dim: int, forgets: bool) -> Cost:
    """The price for `dim` channels; `forgets`: with rate and bonus, which are computed at every token, as in a step."""
    n, past = span.rows * dim, (span.rows - span.first) * dim
    if not forgets:
        return Cost(
            mul=n, add=2 * past, div=n, exp=n, path=("exponentiation", "multiplication", "cumulation", "division")
        )
    return Cost(
        mul=2 * (n + past),
        add=n + 4 * past,
        div=n,
        exp=2 * (n + past),
        other=past,
        path=("addition", "exponentiation", "multiplication", "cumulation", "division"),
    )

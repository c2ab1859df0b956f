"""The price of a running average: the same at every token but the first, which has nothing to fade and to add to."""

from seqloom.core.cost import Cost, Span


def price(span: Span, dim: int, forgets: bool) -> Cost:
    """Over `dim` channels; `forgets` with a rate and a bonus, which are computed at each token, as a step does."""
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

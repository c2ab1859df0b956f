"""The price of a biased average: the window's terms with their biases, and one more term for the sum beyond it."""

from seqloom.core.cost import Cost, Span


def price(span: Span, window: int | None, keys: int, dim: int) -> Cost:
    """The price of the reference with `keys` keys for `dim` channels, where the biases reach back `window` tokens."""
    rows, terms = span.rows, span.terms(window)
    last = 0 if window is None else max(0, span.T - window)
    beyond, first = (last, min(last, 1)) if span.per == "sequence" else (min(last, 1), int(last == 1))
    sums = dim + keys  # numerators and denominators
    return Cost(
        mul=(terms + beyond) * dim,
        add=terms * keys + (terms - rows) * sums + (2 * beyond - first) * sums,
        div=rows * dim,
        exp=(terms + beyond) * keys,
        path=("addition", "exponentiation", "multiplication", "cumulation", "division"),
    )


def factors(terms: int, width: int) -> Cost:
    """The price of `terms` biases u · r of this width; 0 for a table of biases, whose width is 0."""
    return Cost(mul=terms * width, add=terms * (width - 1)) if width else Cost()


def standard(rows: int, window: int, heads: int) -> Cost:
    """The price of normalizing the biases of each head for `rows` tokens, then scaling and shifting them by γ and β.

    Counted are the mean, the differences, their mean square, the addition of 1e-5, the root and the division.
    """
    per_head = rows * heads
    add = 2 * (window - 1) + window + 1 + window
    return Cost(mul=per_head * 2 * window, add=per_head * add, div=per_head * (2 + window), other=per_head)

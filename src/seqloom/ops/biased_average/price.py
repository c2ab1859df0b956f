"""What a biased average costs: the window's terms with their biases, and one more term for the sum beyond it."""

from seqloom.core.cost import Cost, Per, lookback


def price(T: int, window: int | None, keys: int, dim: int, per: Per) -> Cost:
    """The price of the reference with `keys` keys for `dim` channels, where the biases reach back `window` tokens."""
    rows, terms = lookback(T, window, per)
    last = 0 if window is None else max(0, T - window)
    beyond, first = (last, min(last, 1)) if per == "sequence" else (min(last, 1), int(last == 1))
    sums = dim + keys  # numerators and denominators
    return Cost(
        mul=(terms + beyond) * dim,
        add=terms * keys + (terms - rows) * sums + (2 * beyond - first) * sums,
        div=rows * dim,
        exp=(terms + beyond) * keys,
        path=("addition", "exponentiation", "multiplication", "cumulation", "division"),
    )


def gate(rows: int, dim: int) -> Cost:
    """σ(q) ∘ y for `rows` tokens: an exponential, an addition, a division and a product a channel."""
    n = rows * dim
    return Cost(mul=n, add=n, div=n, exp=n, path=("multiplication",))

"""The price of Combiner: the summary of every region, and for every token its direct tokens and its regions."""

from collections.abc import Iterable

from seqloom.core.cost import Cost


def price(form: str, block: int, tokens: Iterable[int], dim: int, heads: int) -> Cost:
    """The price of tokens at these positions, over all heads; a region counts with the first token that reads it."""
    K, terms, rows, compared = dim // heads, 0, 0, 0
    for i in tokens:
        terms, rows = terms + _terms(form, block, i), rows + 1
        for size in _new(form, block, i):
            terms, rows, compared = terms + size, rows + 1, compared + 2 * (size - 1) * K
    pairs = heads * terms
    return Cost(
        mul=2 * pairs * K,
        add=pairs * (K - 1) + (pairs - heads * rows) * (1 + K),
        div=2 * pairs,
        exp=pairs,
        other=heads * compared,
        path=(
            *("other", "multiplication", "cumulation", "division", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation", "multiplication", "cumulation", "division", "exponentiation"),
            *("cumulation", "division", "multiplication", "cumulation"),
        ),
    )


def _terms(form: str, block: int, i: int) -> int:
    """The number of direct tokens and regions of token i."""
    if form == "logsparse":
        return 1 + i.bit_count()
    own, before = i % block + 1, i // block
    return own + (before if form == "fixed" else block * (before > 0))


def _new(form: str, block: int, i: int) -> list[int]:
    """The sizes of the regions that token i is the first to read."""
    if i == 0 or (form != "logsparse" and i % block):
        return []
    if form == "logsparse":
        return [i & -i]
    return [block] if form == "fixed" else [i // block] * block

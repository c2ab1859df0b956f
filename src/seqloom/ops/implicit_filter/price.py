"""The price of computing filters: a tap is computed once, when a sequence first becomes long enough to need it."""

from itertools import pairwise

from seqloom.core.cost import Cost, Span, linear


def price(span: Span, context: int, dim: int, count: int, sizes: list[int]) -> Cost:
    """The taps of `count` filters over `dim` channels that these tokens are the first to need.

    `sizes` are the widths of the network: its encoding of the lag, its hidden layers, and `count` · `dim`. The bias of
    the first tap is part of the price.
    """
    new = min(span.T, context) if span.per == "sequence" else int(context >= span.T)
    encoding, *hidden, outputs = sizes
    layers = [linear(new, *pair, bias=True) for pair in pairwise([encoding, *hidden])]
    network = sum(layers, linear(new, hidden[-1], outputs))
    sines = sum(hidden)
    return Cost(
        mul=network.mul + new * (encoding // 2 + sines + dim + count * dim),
        add=network.add + new * dim + span.first * count * dim,
        div=new,
        exp=new * dim,
        other=new * (encoding - 1 + sines),
    )

"""The price of attention to sorted blocks is what is counted token by token; tests/mixers has the equation."""

import pytest

from seqloom.ops.bucketing.sorted_blocks import price

DIM, HEADS, MOST = 8, 2, 300


def counted(tokens: range, T: int, block: int, causal: bool, cut: int | None) -> tuple[int, int, int]:
    """Slots that are read, slots of sorted blocks, and the tokens that these are mixtures of."""
    sizes = [min(block, T - first) for first in range(0, T, block)]
    slots = sizes[0] if sizes else 0
    terms = mixtures = mixed = 0
    for t in tokens:
        i = t // block
        if cut is not None:
            terms += min(cut, len(sizes)) * slots
        else:
            terms += (slots if i or not causal else 0) + (t % block + 1 if causal else sizes[i])
        if t % block == 0:
            whole_text = T if cut is None or i < cut else 0
            sources = i * block if causal else whole_text
            mixed += sources
            mixtures += slots if sources else 0
    return terms, mixtures, mixed


@pytest.mark.slow
@pytest.mark.parametrize(("causal", "cut"), [(True, None), (False, None), (False, 1), (False, 3)])
@pytest.mark.parametrize("block", [1, 4, 7, 64, 400])
def test_the_price_is_what_is_counted(block: int, causal: bool, cut: int | None) -> None:
    K = DIM // HEADS
    for T in range(MOST + 1):
        for tokens in (range(T), range(max(T - 1, 0), T), range(T // 3, T)):
            terms, mixtures, mixed = counted(tokens, T, block, causal, cut)
            pairs = HEADS * terms
            cost = price(tokens, T, block, DIM, HEADS, causal, cut)
            assert cost.mul == 2 * pairs * K + 2 * mixed * DIM, (T, tokens)
            assert cost.exp == pairs
            assert cost.div == 2 * pairs
            sums = pairs * (K - 1) + (pairs - HEADS * len(tokens)) * (1 + K)
            assert cost.add == sums + 2 * (mixed - mixtures) * DIM

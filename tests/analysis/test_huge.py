"""The price of a text that nobody could read, of every mixer: a formula, no loop over tokens and no table of them."""

import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds, mixer_config
from seqloom.ops.attention import plan
from seqloom.ops.attention.patterns import RandomBlocks, Within, random_blocks
from tests.contract.cases import has_form

T = 2**40
"""a loop over so many tokens would take days, a table of them terabytes"""
CASES = [
    pytest.param(kind, example, causal, id=f"{kind}-{number}-{'causal' if causal else 'bidirectional'}")
    for kind, config in kinds().items()
    for number, example in enumerate(config.examples)
    for causal in (True, False)
    if has_form(kind, example, causal)
]


def built(kind: str, example: dict[str, object], causal: bool, context: int) -> Mixer:
    with torch.device("meta"):
        return mixer_config({"kind": kind, **example}).build(8, context, causal)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "example", "causal"), CASES)
def test_the_price_of_a_huge_text(kind: str, example: dict[str, object], causal: bool) -> None:
    priced, refused = 0, []
    for context in (16, T):
        try:
            mixer = built(kind, example, causal, context)
        except (ValueError, RuntimeError, OverflowError):
            continue  # a table of this many positions, which even without memory is beyond torch's sizes
        for per in ("sequence", "token"):
            try:
                cost = mixer.cost(T, per)
            except ValueError as error:
                refused.append(str(error))
                continue
            assert min(cost.mul, cost.add, cost.other) >= 0
            priced += 1
    assert priced
    known = ("no price per token", "reads at most", *(["have no formula"] if kind == "bigbird" else []))
    assert [words for words in refused if not any(reason in words for reason in known)] == []


@pytest.mark.slow
def test_random_blocks_that_a_context_cuts_are_drawn() -> None:
    mixer = built("bigbird", {"heads": 2, "block": 2, "window": 1, "random": 1}, True, 16)
    with pytest.raises(ValueError, match=r"context of 16 cuts have no formula.* choose at most 33,554,432 tokens"):
        mixer.cost(T)
    assert mixer.cost(T, "token").mul > 0
    assert 3.99 < mixer.cost(2**22).mul / mixer.cost(2**20).mul < 4  # late random blocks seldom lie in a context


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False])
def test_random_blocks_are_counted_block_by_block_in_many_chunks(monkeypatch: pytest.MonkeyPatch, causal: bool) -> None:
    pattern = RandomBlocks(4, 1, 2, 1, 0 if causal else 1, 3, causal)
    counted = plan.plan.__wrapped__(Within(pattern.of(2999), 100), 2999)
    monkeypatch.setattr(random_blocks, "AT_ONCE", 7)
    assert pattern.pairs(2999, 100) == sum(part.pairs for part in counted)


@pytest.mark.parametrize("context", [2**21, 2**30])
def test_the_keys_of_a_late_token_of_random_blocks(context: int) -> None:
    pattern = RandomBlocks(64, 1, 3, 1, 0, 5)
    t = 2**31 - 3
    then = pattern.keys(t)
    assert plan.keys(Within(pattern, context), t) == int((t - then < context).sum())

"""The price of a text that nobody could read, of every mixer: a formula, no loop over tokens and no table of them."""

import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds, mixer_config
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
    known = ("no price per token", "reads at most", *(["counted one by one"] if kind == "bigbird" else []))
    assert [words for words in refused if not any(reason in words for reason in known)] == []


def test_random_blocks_that_a_context_cuts_are_counted() -> None:
    mixer = built("bigbird", {"heads": 2, "block": 2, "window": 1, "random": 1}, True, 16)
    with pytest.raises(ValueError, match="counted one by one: choose at most 1,048,576 tokens"):
        mixer.cost(T)
    assert mixer.cost(T, "token").mul > 0

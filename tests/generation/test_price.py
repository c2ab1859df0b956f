"""The price of a generation is that of the tokens that the model reads and the state that it stores."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from seqloom.core.state import nbytes
from seqloom.generation.draws import tokens
from seqloom.generation.price import Price, price
from seqloom.models.decoder import Decoder
from tests.kinds import CAUSAL

CASES = [("slide", hop) for hop in (1, 2, 3, 6)] + [("stream", 1)]


def spent(model: Decoder, monkeypatch: pytest.MonkeyPatch, prompt: int, count: int, mode: Any, hop: int) -> Price:
    """Counts the tokens that go in and the largest state that comes out."""
    read, held = 0, [0]

    def counted(verb: str) -> None:
        inner = getattr(model, verb)

        def call(ids: torch.Tensor, *state: Any, **settings: Any) -> Any:
            nonlocal read
            read += ids.shape[1] if ids.ndim == 2 else 1
            out = inner(ids, *state, **settings)
            if state:
                held.append(nbytes(model.trim(out[1])))
            return out

        monkeypatch.setattr(model, verb, call)

    for verb in ("features", "read", "step"):
        counted(verb)
    for _ in tokens(model, torch.ones(1, prompt, dtype=torch.long), max_tokens=count, mode=mode, hop=hop):
        pass
    return Price(read, read / count, max(held))


ALWAYS = ("attention", "she", "aft_full", "retention", "mamba")
"""kinds whose states differ in how they grow; the others have the first case at once, the rest in `make test-all`"""
EACH = [
    pytest.param(*case, kind, marks=[] if kind in ALWAYS or case == CASES[0] else [pytest.mark.slow])
    for kind in CAUSAL
    for case in CASES
]


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "hop", "kind"), EACH)
def test_the_price_is_what_is_spent(
    decoder: Callable[..., Decoder], kind: str, mode: Any, hop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prompt, count in ((1, 1), (3, 2), (3, 10), (6, 2), (9, 8)):
        with monkeypatch.context() as patch:
            model = decoder(kind)
            if mode == "stream" and prompt + count - 1 > (model.longest or 100):
                with pytest.raises(ValueError, match="use mode 'slide'"):
                    price(model, prompt, count, mode, hop)
                continue
            cost = price(model, prompt, count, mode, hop)
            assert cost == spent(model, patch, prompt, count, mode, hop), (prompt, count)


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "hop"), CASES)
def test_what_follows_the_mixers_is_in_the_price(
    decoder: Callable[..., Decoder], mode: Any, hop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = decoder("rwkv", channel="channel_mix", embed_norm=True)
    cost = price(model, 3, 20, mode, hop)
    assert cost == spent(model, monkeypatch, 3, 20, mode, hop)
    less = price(decoder("rwkv"), 3, 20, mode, hop).state_bytes
    assert cost.state_bytes == less + (2 * 8 * 8 if less else 0), "the last token of each layer"


@pytest.mark.slow
@pytest.mark.parametrize("hop", [1, 3, 6])
def test_a_model_without_state_pays_with_reading(
    decoder: Callable[..., Decoder], windowed: Any, hop: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for prompt, count in ((1, 1), (3, 17), (8, 12)):
        with monkeypatch.context() as patch:
            model = decoder(windowed)
            assert price(model, prompt, count, "slide", hop) == spent(model, patch, prompt, count, "slide", hop)


def test_the_price_in_words(decoder: Callable[..., Decoder]) -> None:
    model = decoder("she")
    reread = "reads 6,000 tokens, 6.0 for each one written, and holds no state"
    assert str(price(model, 6, 1000, "slide")) == str(price(decoder("she", position="learned"), 6, 1000)) == reread
    streamed = "reads 1,005 tokens, 1.0 for each one written, and holds a state of at most 1,296 bytes"
    assert str(price(model, 6, 1000, "stream")) == str(price(model, 6, 1000)) == streamed
    assert price(model, 6, 10**12, "slide", 4).reads_per_token == pytest.approx((3 + 3) / 4)

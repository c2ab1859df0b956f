"""Each mode against its definition, for every registered mixer; wrong lengths raise an error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.state import nbytes
from seqloom.generation import modes
from seqloom.generation.draws import tokens
from seqloom.generation.price import price
from seqloom.generation.sample import Sampling
from seqloom.mixers import kinds
from seqloom.models.decoder import Decoder
from tests.kinds import CAUSAL

KINDS = [
    pytest.param({"kind": kind, **example}, marks=[pytest.mark.slow] if n else [])
    for kind in CAUSAL
    for n, example in enumerate(kinds()[kind].examples)
]
"""each kind at once, its other examples in `make test-all`"""
PROMPTS_AND_HOPS = [
    pytest.param(prompt, hop, marks=[] if (prompt, hop) == (4, 2) else [pytest.mark.slow])
    for prompt in (4, 6, 9)
    for hop in (2, 4, 6)
]
L = 6
"""the context of the models: prompts are shorter, as long, or longer"""


def prompts(at_once: tuple[int, ...], later: tuple[int, ...]) -> pytest.MarkDecorator:
    """Prompts of so many tokens, the later ones in `make test-all`."""
    return pytest.mark.parametrize("prompt", [*at_once, *(pytest.param(n, marks=pytest.mark.slow) for n in later)])


Build = Callable[..., Decoder]


def texts(length: int, rows: int = 2) -> Tensor:
    return torch.randint(0, 11, (rows, length), generator=torch.Generator().manual_seed(length))


def run(model: Decoder, prompts: Tensor, count: int, **settings: Any) -> tuple[Tensor, Tensor]:
    """The whole text (B, P + count) and the logits (B, count, W) that its new tokens were drawn from."""
    drawn = list(tokens(model, prompts, max_tokens=count, sampling=Sampling(seed=5), **settings))
    assert len(drawn) == count
    return torch.cat([prompts, torch.stack([d.ids for d in drawn], 1)], 1), torch.stack([d.logits for d in drawn], 1)


def windows(prompt: int, count: int, hop: int) -> list[int]:
    """How many tokens each new token sees, straight from the words: full, then the oldest `hop` go at once."""
    sizes = [min(prompt, L)]
    while len(sizes) < count:
        sizes.append(sizes[-1] + 1 if sizes[-1] < L else L - hop + 1)
    return sizes


def close(actual: Tensor, want: Tensor) -> None:
    torch.testing.assert_close(actual, want, rtol=1e-9, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", KINDS, ids=str)
@prompts((4,), (1, 6, 9))
def test_slide_is_the_model_on_the_last_tokens(decoder: Build, mixer: dict[str, Any], prompt: int) -> None:
    model = decoder(mixer, position="learned")
    text, logits = run(model, texts(prompt), 7, mode="slide")
    want = torch.stack([model(text[:, max(0, t - L) : t])[:, -1] for t in range(prompt, prompt + 7)], 1)
    close(logits, want)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", KINDS, ids=str)
@pytest.mark.parametrize(("prompt", "hop"), PROMPTS_AND_HOPS)
def test_slide_with_a_hop_is_its_definition(decoder: Build, mixer: dict[str, Any], prompt: int, hop: int) -> None:
    model = decoder(mixer, position="learned")
    text, logits = run(model, texts(prompt), 10, mode="slide", hop=hop)
    sizes = windows(prompt, 10, hop)
    assert L - hop + 1 <= min(sizes[max(0, L - prompt) :])
    want = torch.stack([model(text[:, prompt + n - size : prompt + n])[:, -1] for n, size in enumerate(sizes)], 1)
    close(logits, want)


@pytest.mark.parametrize("hop", [1, 2, 5, 6])
@pytest.mark.parametrize("prompt", [1, 6, 8])
def test_the_window_is_the_formula_of_the_module(prompt: int, hop: int) -> None:
    full = max(prompt, L)
    law = [min(t, L) if t <= full else L - hop + 1 + (t - full - 1) % hop for t in range(prompt, prompt + 30)]
    assert windows(prompt, 30, hop) == law


@pytest.mark.slow
@pytest.mark.parametrize("mixer", KINDS, ids=str)
@prompts((17,), (1, 6))
def test_stream_is_one_reading_of_the_whole_text(
    decoder: Build, mixer: dict[str, Any], prompt: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(modes, "PIECE", 7)  # so that a prompt is read in several
    model = decoder(mixer)
    if not model.traits.streams or (model.longest is not None and prompt + 13 > model.longest):
        with pytest.raises(ValueError, match="use mode 'slide'"):
            run(model, texts(prompt), 14, mode="stream")
        return
    text, logits = run(model, texts(prompt), 14, mode="stream")
    want = model.extend(text[:, :-1], model.start(2))[0][:, prompt - 1 :]
    close(logits, want)


@pytest.mark.slow
@pytest.mark.parametrize("mixer", ["attention", "she", "he"])
def test_the_modes_are_different_functions(decoder: Build, mixer: str) -> None:
    """Past the context: below it they agree. (A layer of `stream` sees beyond L through the layer below.)"""
    model, prompts = decoder(mixer), texts(3)
    slide, stream = (run(model, prompts, 12, mode=mode)[1] for mode in ("slide", "stream"))
    close(slide[:, : L - 2], stream[:, : L - 2])
    assert not torch.allclose(slide[:, L - 2 :], stream[:, L - 2 :])


@pytest.mark.parametrize("mixer", KINDS, ids=str)
def test_the_default_streams_where_nothing_ends(decoder: Build, mixer: dict[str, Any]) -> None:
    """Then a token is read once; with learned positions, or a state that ends, the window is read again."""
    for position in ("none", "learned"):
        model = decoder(mixer, position=position)
        endless = model.traits.streams and model.traits.longest is None
        assert not endless or position == "none"
        mode = "stream" if endless else "slide"
        assert modes.default_mode(model) == mode
        torch.testing.assert_close(run(model, texts(3), 9), run(model, texts(3), 9, mode=mode), rtol=0, atol=0)
        assert price(model, 3, 200) == price(model, 3, 200, mode)
        assert (price(model, 3, 200).tokens_read == 202) == endless
        assert modes.default_mode(model, hop=2) == "slide", "a hop is of windows"


def test_a_recurrent_model_reads_one_token_for_each_written(decoder: Build) -> None:
    assert modes.default_mode(decoder("gru")) == modes.default_mode(decoder("mamba2")) == "stream"
    assert price(decoder("gru"), 4, 1000).reads_per_token == pytest.approx(1.0, abs=0.01)
    assert price(decoder("gru"), 4, 1000, "slide").reads_per_token == pytest.approx(6.0, abs=0.1)


@pytest.mark.slow
@torch.no_grad()
def test_stream_keeps_constant_memory(decoder: Build) -> None:
    model = decoder("attention")
    reading = modes.reader(model, "stream", 1, 20, 40)
    reading.prompt(texts(20))
    full = nbytes(reading._state)  # type: ignore[attr-defined]
    for id in texts(39).T:
        reading.token(id)
    assert nbytes(reading._state) == full  # type: ignore[attr-defined]


@pytest.mark.slow
def test_a_model_that_cannot_stream_reads_its_window_each_time(decoder: Build, windowed: Any) -> None:
    model = decoder(windowed)
    for hop in (1, 3):
        text, logits = run(model, texts(4), 12, hop=hop)
        sizes = windows(4, 12, hop)
        close(logits, torch.stack([model(text[:, 4 + n - s : 4 + n])[:, -1] for n, s in enumerate(sizes)], 1))
    with pytest.raises(ValueError, match=r"^mixer whole cannot read on from a state: use mode 'slide'$"):
        tokens(model, texts(4), max_tokens=2, mode="stream")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "slid"}, r"unknown mode 'slid'; did you mean 'slide'\?"),
        ({"max_tokens": 0}, "max_tokens must be at least 1, not 0"),
        ({"hop": 0}, r"hop must lie in 1 … 6 \(the tokens of the window\), not 0"),
        ({"hop": 7}, r"hop must lie in 1 … 6 \(the tokens of the window\), not 7"),
        ({"mode": "stream", "hop": 2}, "mode 'stream' reads nothing again .* leave out hop=2, or use mode 'slide'"),
    ],
)
def test_impossible_calls_raise_an_error_at_once(decoder: Build, settings: dict[str, Any], message: str) -> None:
    for call in (lambda **s: tokens(decoder(), texts(4), **s), lambda **s: price(decoder(), 4, **s)):
        with pytest.raises(ValueError, match=f"^{message}$"):
            call(**{"max_tokens": 3, **settings})


@pytest.mark.parametrize(
    ("prompt", "count", "way_out"),
    [
        (4, 4, "use mode 'slide', max_tokens of at most 3, or a model trained with model.position=none"),
        (7, 1, "use mode 'slide', or a model trained with model.position=none"),
    ],
)
def test_stream_stays_within_learned_positions(decoder: Build, prompt: int, count: int, way_out: str) -> None:
    model = decoder(position="learned")
    with pytest.raises(
        ValueError, match=rf"would read 7 tokens \({prompt} of the prompt\), the model takes 6: {way_out}$"
    ):
        tokens(model, texts(prompt), max_tokens=count, mode="stream")


def test_stream_goes_as_far_as_learned_positions_reach(decoder: Build) -> None:
    model = decoder(position="learned")
    slide, stream = (run(model, texts(4), 3, mode=mode)[1] for mode in ("slide", "stream"))
    close(stream, slide)  # the last token is written at position 7, and never read

"""Reach maps against known derivatives, and against torch's own Jacobian."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import seqloom
from seqloom.analysis import reach as module
from seqloom.analysis.reach import Span, in_words, reach, reach_of, span, tokens_back, view
from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.contract.sound_others import Ahead
from tests.kinds import CAUSAL

T, DIM = 12, 8


def built(kind: str, context: int | None = T, **settings: object) -> Mixer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        return mixer_config({"kind": kind, **settings}).build(DIM, context).double()


def drawn(rows: int, tokens: int = T) -> Tensor:
    return torch.randn(rows, tokens, DIM, generator=torch.Generator().manual_seed(4), dtype=torch.float64)


def jacobian(mixer: Mixer, x: Tensor) -> Tensor:
    result = torch.autograd.functional.jacobian(lambda row: mixer(row[None])[0], x)  # (T, D, T, D)
    return result.square().sum((1, 3)).sqrt()


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", CAUSAL)
def test_nothing_ahead_is_read_and_something_behind_is(kind: str) -> None:
    result = reach(built(kind), T)
    largest = result.max()
    assert result.shape == (T, T)
    assert result.isfinite().all()
    assert result.triu(1).max() < 1e-12 * largest
    assert (result.diagonal(-1) > 1e-6 * largest).any() == (kind != "identity"), "the token before is read"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "she", "mamba", "rwkv"])
def test_it_is_the_jacobian(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mixer, x = built(kind), drawn(2)
    whole = (jacobian(mixer, x[0]).square() + jacobian(mixer, x[1]).square()).div(2).sqrt()
    torch.testing.assert_close(reach_of(mixer, x), whole)
    monkeypatch.setattr(module, "COPIES", 7 * T * DIM)  # batches that end in the middle of a position
    torch.testing.assert_close(reach_of(mixer, x), whole)


def test_one_row_is_read_unless_more_are_named() -> None:
    mixer = built("attention")
    assert torch.equal(reach(mixer, T), reach(mixer, T, rows=1))
    assert not torch.equal(reach(mixer, T), reach(mixer, T, rows=2))


def test_of_me_it_is_its_taps_by_lag() -> None:
    mixer = built("me")
    taps = mixer.get_parameter("w_ext").detach().abs() * DIM**0.5
    lag = torch.arange(T)[:, None] - torch.arange(T)
    torch.testing.assert_close(reach(mixer, T), torch.where(lag >= 0, taps[lag.clamp(min=0)], 0.0))


def test_attention_with_zero_queries_weights_all_keys_equally() -> None:
    mixer = built("attention", heads=1)
    w_qkv = mixer.get_parameter("w_qkv.weight")
    nn.init.zeros_(w_qkv[: 2 * DIM].detach())
    through = mixer.get_parameter("w_out.weight") @ w_qkv[2 * DIM :]
    expected = through.norm().detach() / torch.arange(1, T + 1, dtype=torch.float64)
    torch.testing.assert_close(reach(mixer, T), expected[:, None].expand(T, T).tril())


def test_a_window_ends() -> None:
    result = reach(built("attention", context=4), T)
    lag = torch.arange(T)[:, None] - torch.arange(T)
    assert result[lag > 3].max() == 0
    assert (result[(lag >= 0) & (lag <= 3)] > 0).all()


def test_a_function_that_looks_ahead_is_detected() -> None:
    assert (reach(Ahead().double(), T).triu(1) > 0).any()


@pytest.mark.slow
def test_an_estimate_is_near_and_the_same_again() -> None:
    mixer, x = built("attention"), drawn(1)
    exact, result = reach_of(mixer, x), reach_of(mixer, x, probes=200)
    past = torch.ones(T, T).tril().bool()
    assert ((result / exact)[past] - 1).abs().max() < 0.2
    assert torch.equal(result, reach_of(mixer, x, probes=200))
    assert not torch.equal(result, reach_of(mixer, x, probes=200, seed=1))


def test_a_map_is_drawn_by_its_seed_and_leaves_no_gradient() -> None:
    mixer = built("attention")
    assert torch.equal(reach(mixer, T), reach(mixer, T))
    assert not torch.equal(reach(mixer, T), reach(mixer, T, seed=1))
    assert all(parameter.grad is None and parameter.requires_grad for parameter in mixer.parameters())


MEMORIES = {
    "transformer_xl": ({"memory": 4}, 4),
    "compressive": ({"memory": 4, "compressed": 3, "rate": 2}, 4 + 2 * 3),
}


@torch.no_grad()
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("kind", MEMORIES)
def test_a_model_reaches_the_memory_of_all_its_layers_and_no_further(kind: str, depth: int) -> None:
    """m N, and (m + c · cm) N: the farthest token that counts changes the last prediction, the one before it no bit."""
    settings, one = MEMORIES[kind]
    torch.manual_seed(0)
    sizes = {"vocab": 11, "dim": DIM, "depth": depth, "context": 8, "std": 0.5, "position": {"kind": "none"}}
    model = seqloom.decoder([{"kind": kind, "heads": 2, **settings}], **sizes).double().eval()
    far = tokens_back(model.config)
    assert far == depth * one
    ids = torch.randint(1, 11, (1, 2 * (far // 2) + 5))  # the last position is even: a block begins farthest from it
    for back, moves in ((far, True), (far + 1, False), (0, True)):
        other = ids.clone()
        other[0, -1 - back] = 0
        assert torch.equal(model(ids)[0, -1], model(other)[0, -1]) != moves, back


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([{"kind": "transformer_xl", "memory": 5}, {"kind": "compressive", "memory": 4, "rate": 2}], 5 + 4 + 2 * 128),
        ([{"kind": "transformer_xl"}, {"kind": "gru"}], None),
    ],
)
def test_the_reach_of_a_model_is_the_sum_over_its_layers(settings: list[dict[str, object]], expected: int) -> None:
    sizes = {"vocab": 11, "dim": DIM, "depth": 2, "context": 8, "position": {"kind": "none"}}
    assert tokens_back(seqloom.decoder(settings, **sizes).config) == expected
    assert tokens_back(seqloom.decoder(settings, **sizes, channel="channel_mix").config) is None


def test_the_reach_in_words() -> None:
    assert in_words(None, 7, 2) == ""
    assert in_words(640, 2560, 4) == "A layer reaches 640 tokens back at most, all 4 layers 2,560 together."
    assert in_words(640, 640, 1) == in_words(640, None, 4) == "A layer reaches 640 tokens back at most."
    mixer, x = built("transformer_xl"), drawn(1)
    assert view(mixer, x, in_words(640, None, 1)).meaning == f"{view(mixer, x).meaning} {in_words(640, None, 1)}"


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda mixer: reach(mixer, 0), "1 or more tokens"),
        (lambda mixer: reach(mixer, 3, rows=0), "rows"),
        (lambda mixer: reach_of(mixer, drawn(1), probes=0), "1 or more probes"),
        (lambda mixer: span(torch.zeros(4, 4)), "nothing is read"),
    ],
)
def test_errors(call: Callable[[Mixer], object], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        call(built("me"))


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (torch.eye(4), Span(1.0, 0.0, 0.0, (1 / 3 + 1 / 4) / 2)),
        (torch.ones(4, 4).tril(), Span((1 / 3 + 1 / 4) / 2, 1.0, 2.5, 1.0)),
        (torch.ones(4, 4), Span((1 / 3 + 1 / 4) / 2, 1.0, 2.5, 1.0)),
        (torch.tensor([[1.0, 0, 0], [8, 2, 0], [0, 8, 2]]), Span(0.2, 1.0, 1.0, (1 + 2 / 3) / 2)),
    ],
)
def test_spans_counted_by_hand(actual: Tensor, expected: Span) -> None:
    for name in ("now", "half", "most", "seen"):
        assert getattr(span(actual.double()), name) == pytest.approx(getattr(expected, name)), name


def test_a_view_is_a_logarithm_of_the_first_tokens() -> None:
    with torch.no_grad():
        shown = view(built("me", context=40), drawn(2, 40))
    assert shown.axes == ("query", "key")
    assert shown.values.shape == (32, 32)
    assert shown.values.max() == 3
    assert shown.values.min() == 0


def test_a_view_of_a_mixer_that_reads_nothing_is_empty() -> None:
    mixer = built("me")
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.zero_()
        assert not view(mixer, drawn(1)).values.any()


def test_a_slope_of_a_thousandth_of_the_largest_is_seen() -> None:
    row = torch.tensor([1.0, 0.999, 500.0, 1000.0], dtype=torch.float64)
    assert span(torch.stack([torch.zeros(4).double()] * 3 + [row])).seen == 3 / 4

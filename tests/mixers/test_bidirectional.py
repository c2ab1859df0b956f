"""Bidirectional mixers: attention over whole rows, its window on both sides, and the verbs that they lack."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.contracts.causality import causality
from seqloom.contracts.target import subject_of
from seqloom.core.cost import Span
from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.attention.attention import AttentionConfig, BidirectionalAttention
from seqloom.mixers.extractors.extractors import BidirectionalExtractor
from seqloom.ops import backends
from seqloom.ops.attention.sparse import SHORT
from seqloom.ops.lag_sum.centered import sum_centered

D, H, T = 6, 2, 7


def built(context: int | None = None, window: int | None = None) -> BidirectionalAttention:
    torch.manual_seed(3)
    mixer = AttentionConfig(heads=H, window=window).build(D, context, causal=False)
    assert isinstance(mixer, BidirectionalAttention)
    return mixer.double()


def as_written(mixer: BidirectionalAttention, x: np.ndarray, reach: int) -> np.ndarray:
    """The equation for one row (T, D), token by token and head by head."""
    w_q, w_k, w_v = (w.detach().numpy().T for w in mixer.w_qkv.weight.chunk(3))
    w_out = mixer.w_out.weight.detach().numpy().T
    y, K = np.zeros_like(x), D // H
    for i in range(len(x)):
        near = [j for j in range(len(x)) if abs(i - j) < reach]
        for h in range(H):
            part = slice(h * K, (h + 1) * K)
            weights = np.exp([(x[i] @ w_q)[part] @ (x[j] @ w_k)[part] / math.sqrt(K) for j in near])
            y[i, part] = sum(a * (x[j] @ w_v)[part] for a, j in zip(weights / weights.sum(), near, strict=True))
    return y @ w_out


@pytest.mark.parametrize(
    ("context", "window", "reach"), [(None, None, T), (T, None, T), (3, None, 3), (T, 2, 2), (2, 4, 2), (None, 1, 1)]
)
def test_bidirectional_is_its_equation(context: int | None, window: int | None, reach: int) -> None:
    mixer, x = built(context, window), torch.randn(2, T, D, dtype=torch.float64)
    expected = np.stack([as_written(mixer, row.numpy(), reach) for row in x])
    np.testing.assert_allclose(mixer(x).detach().numpy(), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_a_long_window_is_the_equation_and_is_read_in_tiles() -> None:
    """Dropped tokens are no keys; up to `sparse.SHORT` tokens the window is a mask."""
    length, window = 3 * SHORT, 5
    mixer, x = built(window=window), torch.randn(2, length, D, dtype=torch.float64)
    expected = as_written(mixer, x[0].numpy(), window)
    np.testing.assert_allclose(mixer(x)[0].detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    keep = torch.arange(length) % 3 != torch.tensor([[0], [5]])  # one row with dropped tokens, one without
    kept = mixer(x, keep)[0, keep[0]].detach().numpy()
    np.testing.assert_allclose(kept, as_written(mixer, x[0, keep[0]].numpy(), window), rtol=1e-10, atol=1e-12)
    with backends.record_backends() as ran:
        mixer(x)
    assert set(ran["sparse_attention"]) <= {"tiles", "native"}
    assert "attention" not in ran


def test_a_later_token_changes_every_output_in_reach() -> None:
    x = torch.randn(1, T, D, dtype=torch.float64)
    changed = x.clone()
    changed[:, 4] += 1.0
    for mixer, moved in ((built(), set(range(T))), (built(window=2), {3, 4, 5})):
        gaps = (mixer(changed) - mixer(x)).abs().amax((0, 2))
        assert {int(position) for position in gaps.nonzero()} == moved


def test_the_same_weights_in_both_forms() -> None:
    """The last token reads the same in both; the first reads itself alone only in the causal form."""
    both, causal = built(), AttentionConfig(heads=H).build(D, None).double()
    causal.load_state_dict(both.state_dict())
    x = torch.randn(1, T, D, dtype=torch.float64)
    torch.testing.assert_close(both(x)[:, -1], causal(x)[:, -1])
    assert not torch.allclose(both(x)[:, 0], causal(x)[:, 0])


VERBS: dict[str, Callable[[Mixer, Tensor, State], object]] = {
    "start": lambda mixer, x, state: mixer.start(2),
    "extend": lambda mixer, x, state: mixer.extend(x, state),
    "step": lambda mixer, x, state: mixer.step(x[:, 0], state),
    "price per token": lambda mixer, x, state: mixer.cost(3, per="token"),
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_missing_verb_raises_an_error_that_names_it(verb: str) -> None:
    words = f"^BidirectionalAttention is bidirectional and reads whole sequences: it has no {verb}$"
    with pytest.raises(ValueError, match=words):
        VERBS[verb](built(), torch.randn(2, 3, D, dtype=torch.float64), {})


def test_its_price_has_a_term_for_each_pair() -> None:
    for T, reach in ((0, None), (1, None), (5, None), (5, 2), (5, 9), (4, 1)):
        pairs = sum(abs(i - j) < (reach or T) for i in range(T) for j in range(T))
        assert Span(T).terms_around(reach) == pairs
    mixer, projections = built(), 4 * T * D * D
    assert mixer.cost(T).mul == projections + 2 * T * T * D
    assert built(window=2).cost(T).mul == projections + 2 * (3 * T - 2) * D
    assert mixer.cost(T).state == 0


def test_traits_are_those_of_the_form() -> None:
    assert built().traits.causal == "never"
    assert AttentionConfig().build(8, None).traits.causal == "always"
    assert AttentionConfig.traits.causal == "either"
    assert seqloom.mixer("attention", dim=8, causal=False).traits.causal == "never"
    with pytest.raises(ValueError, match="gru is causal"):
        seqloom.mixer("gru", dim=8, context=4, causal=False)


def test_weights_are_viewed_on_both_sides() -> None:
    mean, *heads = built(window=2).plots(torch.randn(1, T, D, dtype=torch.float64))
    assert len(heads) == H
    band = torch.tensor([[abs(i - j) < 2 for j in range(T)] for i in range(T)])
    assert torch.equal(mean.values > 0, band)
    torch.testing.assert_close(mean.values.sum(1), torch.ones(T, dtype=torch.float64))


def test_one_of_a_user_is_verified_in_the_form_that_it_has() -> None:
    subject = subject_of("tests.mixers.test_build:Whole", dim=8)
    result = causality(subject)
    assert (result.verdict, result.detail) == ("holds", "it is bidirectional: output 0 depends on input 1")


@torch.no_grad()
@pytest.mark.parametrize("kind", ["she", "he", "we", "me", "he_extraction", "extractor"])
@pytest.mark.parametrize(("context", "T"), [(4, 7), (5, 3), (3, 3), (1, 4)])
def test_extractors_sum_over_both_sides(kind: str, context: int, T: int) -> None:
    torch.manual_seed(1)
    mixer = mixer_config({"kind": kind}).build(6, context, causal=False).double()
    assert isinstance(mixer, BidirectionalExtractor)
    x = torch.randn(2, T, 6, dtype=torch.float64)
    z = x if mixer.w_in is None else mixer.w_in(x)
    e = torch.zeros_like(x)
    for i in range(T):
        for j in range(T):
            if abs(i - j) < context:
                tap = mixer.w_ext[i - j + context - 1]
                e[:, i] += z[:, j] @ tap if tap.ndim == 2 else z[:, j] * tap
    y = e if mixer.w_adj is None else mixer.w_adj(x) * e
    expected = y if mixer.w_out is None else mixer.w_out(y)
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-11)


def test_a_sum_over_both_sides_has_an_odd_number_of_taps() -> None:
    with pytest.raises(ValueError, match="an odd number of taps, 2L-1, not 4"):
        sum_centered(torch.zeros(1, 3, 2), torch.zeros(4, 2))


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "aft_simple"},
        {"kind": "aft_full", "bias_dim": 3},
        {"kind": "aft_full", "bias_dim": 0},
        {"kind": "aft_local", "window": 2, "bias_dim": 3},
        {"kind": "aft_local", "window": 2, "bias_dim": 0},
        {"kind": "aft_conv", "heads": 2, "window": 3},
    ],
    ids=str,
)
def test_aft_sums_to_the_end_of_the_row(settings: dict[str, Any]) -> None:
    """Seed 004's Eq. 16 and the paper's Eq. 2: token by token, channel by channel."""
    torch.manual_seed(1)
    T, window = 6, settings.get("window", 99)
    mixer = mixer_config(settings).build(D, 9, causal=False).double()
    for parameter in mixer.parameters():
        parameter.copy_(torch.randn(parameter.shape) * 0.6)
    x = torch.randn(1, T, D, dtype=torch.float64)
    parts = dict(mixer.named_children())
    q, k, v = (parts[name](x)[0] for name in ("w_q", "w_k", "w_v"))
    weights = dict(mixer.named_parameters())
    y = torch.zeros(T, D, dtype=torch.float64)
    for t in range(T):
        for c in range(D):
            head = c * k.shape[1] // D
            top = bottom = 0.0
            for j in range(T):
                bias = 0.0
                if settings["kind"] == "aft_conv" and abs(t - j) < window:
                    taps = weights["w"][:, head]
                    scaled = (taps - taps.mean()) / (taps.var(correction=0) + 1e-5).sqrt()
                    bias = float(weights["gain"][head] * scaled[t - j + window - 1] + weights["shift"][head])
                elif settings["kind"] in ("aft_full", "aft_local") and abs(t - j) < window:
                    w = weights["w"]
                    column = j if settings["kind"] == "aft_full" else t - j + window - 1
                    bias = float(w[0, t] @ w[1, j] if settings["bias_dim"] else w[t, column])
                e = math.exp(float(k[j, head]) + bias)
                top, bottom = top + e * float(v[j, c]), bottom + e
            y[t, c] = torch.sigmoid(q[t, c]) * top / bottom
    torch.testing.assert_close(mixer(x)[0], parts["w_out"](y), rtol=0, atol=1e-11)


@torch.no_grad()
@pytest.mark.parametrize(
    "settings",
    [
        {"kind": "linear", "heads": 2},
        {"kind": "performer", "heads": 2, "features": 5},
        {"kind": "performer", "heads": 2, "features": 5, "kernel": "relu"},
        {"kind": "rfa", "heads": 2, "features": 5, "gate": False},
    ],
    ids=str,
)
def test_one_sum_is_what_the_last_token_reads(settings: dict[str, Any]) -> None:
    """The causal form's last output, with each token moved to the end in turn: its sums have no order."""
    whole, causal = (mixer_config(settings).build(D, None, form).double() for form in (False, True))
    causal.load_state_dict(whole.state_dict())
    x = torch.randn(2, 5, D, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    last = [causal(torch.cat([x[:, :t], x[:, t + 1 :], x[:, t : t + 1]], 1))[:, -1] for t in range(5)]
    torch.testing.assert_close(whole(x), torch.stack(last, 1), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", ["linear", "performer", "aft_simple", "aft_full", "aft_conv"])
def test_a_row_without_tokens_has_no_gradient_that_is_not_a_number(kind: str) -> None:
    mixer = mixer_config({"kind": kind, **kinds()[kind].examples[0]}).build(8, 6, causal=False).double()
    x = torch.randn(2, 4, 8, dtype=torch.float64).requires_grad_()
    keep = torch.tensor([[True] * 4, [False] * 4])
    mixer(x, keep).square().sum().backward()
    assert x.grad is not None
    for gradient in (x.grad, *(parameter.grad for parameter in mixer.parameters())):
        assert gradient is not None
        assert gradient.isfinite().all()


def test_a_gate_has_an_order() -> None:
    with pytest.raises(ValueError, match="rfa is causal: it has no bidirectional form"):
        seqloom.mixer("rfa", dim=8, causal=False)

"""Bidirectional mixers: attention over whole rows, its window on both sides, and what no such mixer has."""

import math
from collections.abc import Callable

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
from seqloom.mixers.attention.attention import AttentionConfig, BidirectionalAttention

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
def test_it_is_the_equation(context: int | None, window: int | None, reach: int) -> None:
    mixer, x = built(context, window), torch.randn(2, T, D, dtype=torch.float64)
    wanted = np.stack([as_written(mixer, row.numpy(), reach) for row in x])
    np.testing.assert_allclose(mixer(x).detach().numpy(), wanted, rtol=1e-10, atol=1e-12)


def test_a_later_token_moves_every_output_in_reach() -> None:
    x = torch.randn(1, T, D, dtype=torch.float64)
    changed = x.clone()
    changed[:, 4] += 1.0
    for mixer, moved in ((built(), set(range(T))), (built(window=2), {3, 4, 5})):
        gaps = (mixer(changed) - mixer(x)).abs().amax((0, 2))
        assert {int(place) for place in gaps.nonzero()} == moved


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
def test_what_it_has_not_names_it(verb: str) -> None:
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
    with pytest.raises(ValueError, match="she is causal"):
        seqloom.mixer("she", dim=8, context=4, causal=False)


def test_weights_are_viewed_on_both_sides() -> None:
    mean, *heads = built(window=2).views(torch.randn(1, T, D, dtype=torch.float64))
    assert len(heads) == H
    band = torch.tensor([[abs(i - j) < 2 for j in range(T)] for i in range(T)])
    assert torch.equal(mean.values > 0, band)
    torch.testing.assert_close(mean.values.sum(1), torch.ones(T, dtype=torch.float64))


def test_one_of_a_user_is_verified_in_the_form_that_it_has() -> None:
    subject = subject_of("tests.mixers.test_build:Whole", dim=8)
    found = causality(subject)
    assert (found.verdict, found.detail) == ("holds", "it is bidirectional: output 0 depends on input 1")

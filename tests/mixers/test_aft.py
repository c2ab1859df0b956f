"""What AFT-full, -local and -conv share: huge inputs, positions, views; and where they coincide."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use

D, N = 6, 7
"""channels and context"""
KINDS = {
    "full": {"kind": "aft_full", "bias_dim": 3},
    "full, table": {"kind": "aft_full", "bias_dim": 0},
    "local": {"kind": "aft_local", "bias_dim": 3, "window": 3},
    "local, table": {"kind": "aft_local", "bias_dim": 0, "window": 2},
    "local, wider than the context": {"kind": "aft_local", "bias_dim": 0, "window": 40},
    "conv, a head a channel": {"kind": "aft_conv", "heads": D, "window": 3},
    "conv, 2 heads": {"kind": "aft_conv", "heads": 2, "window": 4},
}
every_kind = pytest.mark.parametrize("name", KINDS)


def mixer_of(name: str, scale: float = 0.5) -> Mixer:
    mixer = mixer_config(KINDS[name]).build(D, N).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * scale)
    return mixer


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def bias(name: str, w: dict[str, np.ndarray], t: int, j: int, head: int) -> float:
    """w_{tj} of the paper."""
    kind = KINDS[name]
    window = min(int(kind.get("window", N)), N)
    if t - j >= window:
        return 0.0
    if kind["kind"] == "aft_conv":
        taps = w["w"][:, head]
        return w["gain"][head] * (taps[t - j] - taps.mean()) / math.sqrt(taps.var() + 1e-5) + w["shift"][head]
    if kind["bias_dim"]:
        return float(w["w"][0, t] @ w["w"][1, j])
    return w["w"][t, j] if kind["kind"] == "aft_full" else w["w"][t, t - j]


def test_a_convolution_reads_any_length_by_either_path() -> None:
    mixer, x = mixer_of("conv, 2 heads"), numbers(1, 600, D)
    with torch.no_grad():
        whole = mixer(x)
        for way in ({"biased_average": "blocks"}, {"biased_average": "lags", "lag_sum": "fft"}):
            with use(**way):
                torch.testing.assert_close(mixer(x), whole, rtol=0, atol=1e-11)
        y, state = mixer.extend(x[:, :555], mixer.start(1))
        then, state = mixer.extend(x[:, 555:], state)
        torch.testing.assert_close(torch.cat([y, then], 1), whole, rtol=0, atol=1e-11)
        assert nbytes(state) == nbytes(mixer.start(1))


def test_local_over_the_whole_context_is_full() -> None:
    full, local = mixer_of("full"), mixer_config({"kind": "aft_local", "bias_dim": 3, "window": N}).build(D, N).double()
    local.load_state_dict(full.state_dict())
    x = numbers(2, N, D)
    torch.testing.assert_close(local(x), full(x), rtol=0, atol=1e-13)


def test_a_convolution_is_initialized_as_the_plain_average() -> None:
    """γ and β are 0: every earlier token counts by its key alone, as in AFT-simple."""
    mixer, x = mixer_config({"kind": "aft_conv", "heads": D, "window": 3}).build(D, None).double(), numbers(2, 9, D)
    e = mixer.w_k(x).exp()
    plain = (e * mixer.w_v(x)).cumsum(1) / e.cumsum(1)
    expected = mixer.w_out(torch.sigmoid(mixer.w_q(x)) * plain)
    torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-12)


@every_kind
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huge_inputs_late_and_early(name: str, dtype: torch.dtype) -> None:
    """Keys near ±1e4: outputs are finite, and a huge late token moves none before it."""
    mixer = mixer_of(name).to(dtype)
    x = numbers(2, N, D).to(dtype)
    x[:, 1] *= 1e4
    late = x.clone()
    late[:, -2:] *= -1e4
    with torch.no_grad():
        y, moved = mixer(x), mixer(late)
        assert bool(y.isfinite().all() and moved.isfinite().all())
        assert torch.equal(y[:, :-2], moved[:, :-2])
        state = mixer.start(2)
        for t in range(N):
            token, state = mixer.step(late[:, t], state, reuse=True)
            assert bool(token.isfinite().all())


@pytest.mark.parametrize("kind", ["aft_full", "aft_local"])
def test_more_tokens_than_positions_are_an_error(kind: str) -> None:
    mixer = mixer_config({"kind": kind}).build(D, 4)
    message = f"{kind} has weights for 4 positions, not for 5"
    assert mixer.traits.longest == 4
    for read in (mixer, mixer.plots, lambda x: mixer.extend(x, mixer.start(1))):
        with pytest.raises(ValueError, match=message):
            read(torch.randn(1, 5, D))
    _, state = mixer.extend(torch.randn(2, 4, D), mixer.start(2), torch.tensor([[True] * 4, [False] * 4]))
    with pytest.raises(ValueError, match=message):
        mixer.step(torch.randn(2, D), state)
    with pytest.raises(ValueError, match="needs a context"):
        mixer_config({"kind": kind}).build(D, None)


def test_heads_divide_the_channels() -> None:
    with pytest.raises(ValueError, match="not divisible by heads 4"):
        mixer_config({"kind": "aft_conv", "heads": 4}).build(D, 5)


@every_kind
def test_views_are_the_biases(name: str) -> None:
    mixer = mixer_of(name)
    weights = {part: tensor.detach().numpy() for part, tensor in mixer.named_parameters()}
    (view,) = mixer.plots(numbers(1, 5, D))
    shown = view.values.detach().numpy()
    if view.axes == ("lag", "head"):
        for lag, head in np.ndindex(*shown.shape):
            assert abs(shown[lag, head] - bias(name, weights, lag, 0, head)) < 1e-12
    else:
        assert view.axes == ("query", "key")
        for t, j in np.ndindex(5, 5):
            assert abs(shown[t, j] - (bias(name, weights, t, j, 0) if j <= t else 0.0)) < 1e-12

"""Both ways: the sum and the concatenation by hand, torch's bidirectional LSTM, S5's states of both directions."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import gelu

import seqloom
from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds, mixer_config
from seqloom.mixers.recurrent.both_ways import BothWays, BothWaysConfig
from seqloom.mixers.state_space.s5 import BidirectionalS5
from tests.kinds import CAUSAL

D = 8


def built(**settings: Any) -> Mixer:
    torch.manual_seed(5)
    mixer = mixer_config(settings).build(D, 6, causal=False).double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.5)
    return mixer


def stream(T: int = 7) -> Tensor:
    return torch.randn(2, T, D, generator=torch.Generator().manual_seed(T), dtype=torch.float64)


@torch.no_grad()
@pytest.mark.parametrize("kind", [kind for kind in CAUSAL if kind != "rwkv7"])  # see the next test
def test_any_causal_mixer_reads_both_ways(kind: str) -> None:
    mixer = mixer_config({"kind": "both_ways", "mixer": {"kind": kind, **kinds()[kind].examples[0]}})
    mixer = mixer.build(D, 6, causal=False).double()
    assert isinstance(mixer, BothWays)
    x = stream(6)
    later = torch.stack([mixer.backward_mixer(x[:, t:].flip(1))[:, -1] for t in range(6)], 1)
    torch.testing.assert_close(mixer(x), mixer.forward_mixer(x) + later, rtol=0, atol=1e-10)


def test_what_hands_over_to_later_layers_is_an_error() -> None:
    with pytest.raises(ValueError, match="both_ways cannot pass on what rwkv7 hands over to later layers"):
        built(kind="both_ways", mixer={"kind": "rwkv7", "heads": 2})


def test_torchs_bidirectional_lstm() -> None:
    """torch concatenates what both directions write; its second biases are 0."""
    mixer = built(kind="both_ways", mixer={"kind": "lstm", "state_dim": 5}, join="concat")
    assert isinstance(mixer, BothWays)
    assert mixer.w_out is not None
    peer = nn.LSTM(D, 5, batch_first=True, bidirectional=True, dtype=torch.float64)
    written = []
    with torch.no_grad():
        for part, suffix in ((mixer.forward_mixer, ""), (mixer.backward_mixer, "_reverse")):
            weights = dict(part.named_parameters())
            getattr(peer, f"weight_ih_l0{suffix}").copy_(weights["w_in.weight"])
            getattr(peer, f"weight_hh_l0{suffix}").copy_(weights["w_state.weight"])
            getattr(peer, f"bias_ih_l0{suffix}").copy_(weights["w_in.bias"])
            getattr(peer, f"bias_hh_l0{suffix}").zero_()
            written.append(weights["w_out.weight"])
    x = stream().requires_grad_()
    again = x.detach().clone().requires_grad_()
    h = peer(again)[0].chunk(2, -1)
    expected = torch.cat([part @ w.mT for part, w in zip(h, written, strict=True)], -1) @ mixer.w_out.weight.mT
    y = mixer(x)
    torch.testing.assert_close(y, expected, rtol=0, atol=1e-12)
    dy = torch.randn_like(y)
    y.backward(dy)
    expected.backward(dy)
    torch.testing.assert_close(x.grad, again.grad, rtol=0, atol=1e-11)


@torch.no_grad()
def test_the_states_of_both_directions_in_a_loop() -> None:
    mixer = built(kind="both_ways", mixer={"kind": "s5", "state_dim": 6}, join="states")
    assert isinstance(mixer, BidirectionalS5)
    x = stream(5)
    eigenvalues, b, c = (torch.view_as_complex(p) for p in (mixer.eigenvalues, mixer.b, mixer.c))
    eigenvalues = torch.complex(eigenvalues.real.clamp(max=-1e-4), eigenvalues.imag)
    decay = (eigenvalues * mixer.log_step.exp()).exp()
    gain = (decay - 1) / eigenvalues

    def states(rows: Tensor) -> Tensor:
        h, result = torch.zeros(2, 3, dtype=torch.complex128), []
        for u in rows.unbind(1):
            h = decay * h + gain * (u.to(b) @ b.mT)
            result.append(h)
        return torch.stack(result, 1)

    both = torch.cat([states(x), states(x.flip(1)).flip(1)], -1)
    z = gelu(2 * (both @ c.mT).real + mixer.d * x)
    torch.testing.assert_close(mixer(x), z * torch.sigmoid(z @ mixer.w_gate.weight.mT), rtol=0, atol=1e-11)


def test_s5_has_the_same_form_of_its_own() -> None:
    own, joined = built(kind="s5"), built(kind="both_ways", mixer={"kind": "s5"}, join="states")
    joined.load_state_dict(own.state_dict())
    assert torch.equal(own(stream()), joined(stream()))


def test_views_name_the_direction() -> None:
    names = [view.name for view in built(kind="both_ways", mixer={"kind": "he"}).plots(stream())]
    assert names == ["forward_mixer: taps", "backward_mixer, from the end: taps"]


@pytest.mark.parametrize(
    ("settings", "error"),
    [
        ({"join": "states"}, "join=states is a form of s5 alone, not of gru: choose sum or concat"),
        ({"mixer": {"kind": "etc"}}, "unknown mixer|etc is bidirectional"),
        ({"mixer": 3}, "a mixer is given by its settings"),
        ({"join": "mean"}, "join"),
    ],
)
def test_bad_settings(settings: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        mixer_config({"kind": "both_ways", **settings}).build(D, 6, causal=False)


def test_a_decoder_takes_none() -> None:
    with pytest.raises(ValueError, match="both_ways is bidirectional: it has no causal form"):
        seqloom.mixer("both_ways", dim=D, context=6)
    assert not BothWaysConfig.traits.streams

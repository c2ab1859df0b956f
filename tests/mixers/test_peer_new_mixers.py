"""Mixers against the layers of `transformers` with weights copied: outputs, gradients, and cached tokens.

The peers round to float32 inside, so the bound is 2e-6 of the largest number, and 1e-5 of it for gradients.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config

transformers = pytest.importorskip("transformers")
D = 16
MLP = {"vocab_size": 11, "hidden_size": D, "intermediate_size": D, "num_attention_heads": 2, "num_key_value_heads": 2}


def olmo() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    from transformers.models.olmo_hybrid.modeling_olmo_hybrid import OlmoHybridGatedDeltaNet

    sizes = {"linear_num_key_heads": 2, "linear_num_value_heads": 2, "linear_key_head_dim": 6}
    config = transformers.OlmoHybridConfig(
        **{**MLP, **sizes, "linear_value_head_dim": 12, "num_hidden_layers": 2, "linear_allow_neg_eigval": True},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(OlmoHybridGatedDeltaNet(config, 0), config)
    theirs = dict(peer.named_parameters())
    return (
        peer,
        mixer_config({"kind": "gated_delta", "heads": 2, "negative": True}).build(D, None),
        {
            "w_qkv.weight": torch.cat([theirs[f"{name}_proj.weight"] for name in "qkv"]),
            "w_a.weight": theirs["a_proj.weight"],
            "w_a.bias": theirs["dt_bias"],
            "w_b.weight": theirs["b_proj.weight"],
            "w_g.weight": theirs["g_proj.weight"],
            "w_o.weight": theirs["o_proj.weight"],
            "norm.weight": theirs["o_norm.weight"],
            "a_log": theirs["A_log"],
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


def qwen() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    """Its one projection holds q, k, v and z head by head of the keys, and β and a likewise."""
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    H, R, K, V = 2, 2, 5, 3  # heads, heads of values for each, widths
    sizes = {"linear_num_key_heads": H, "linear_num_value_heads": H * R, "linear_key_head_dim": K}
    config = transformers.Qwen3NextConfig(
        **{**MLP, **sizes, "linear_value_head_dim": V, "num_hidden_layers": 2, "rms_norm_eps": 1e-6},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(Qwen3NextGatedDeltaNet(config, 0), config)
    theirs = dict(peer.named_parameters())
    parts = theirs["in_proj_qkvz.weight"].unflatten(0, (H, -1)).split((K, K, R * V, R * V), 1)
    q, k, v, z = (part.flatten(0, 1) for part in parts)
    b, a = (part.flatten(0, 1) for part in theirs["in_proj_ba.weight"].unflatten(0, (H, -1)).split((R, R), 1))
    settings = {"heads": H, "value_heads": H * R, "key_width": K, "value_width": V, "norm_eps": 1e-6}
    return (
        peer,
        mixer_config({"kind": "gated_delta", **settings}).build(D, None),
        {
            "w_qkv.weight": torch.cat([q, k, v]),
            "w_a.weight": a,
            "w_a.bias": theirs["dt_bias"],
            "w_b.weight": b,
            "w_g.weight": z,
            "w_o.weight": theirs["out_proj.weight"],
            "norm.weight": theirs["norm.weight"],
            "a_log": theirs["A_log"],
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


def of_mamba2(peer: nn.Module, settings: dict[str, Any]) -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    theirs = dict(peer.named_parameters())
    mixer = mixer_config({"kind": "mamba2", **settings}).build(D, None)
    return (
        peer,
        mixer,
        {
            "w_in.weight": theirs["in_proj.weight"],
            "w_out.weight": theirs["out_proj.weight"],
            "conv.weight": taps(theirs["conv1d.weight"]),
            "conv.bias": theirs["conv1d.bias"],
            "a_log": theirs["A_log"],
            "step_bias": theirs["dt_bias"],
            "d": theirs["D"],
            "norm.weight": theirs["norm.weight"].unflatten(0, (settings.get("groups", 1), -1)),
        },
    )


def mamba2() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

    sizes = {"vocab_size": 11, "hidden_size": D, "num_heads": 4, "head_dim": 8, "state_size": 5, "n_groups": 2}
    config = transformers.Mamba2Config(**sizes, num_hidden_layers=1, chunk_size=4)
    return of_mamba2(strengthened(Mamba2Mixer(config, 0), config), {"state_dim": 5, "head_width": 8, "groups": 2})


def bamba() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    from transformers.models.bamba.modeling_bamba import BambaMixer

    sizes = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 5, "mamba_n_groups": 1, "mamba_chunk_size": 4}
    config = transformers.BambaConfig(**MLP, **sizes, num_hidden_layers=2, attn_layer_indices=[1])
    settings = {"state_dim": 5, "head_width": 8, "norm_eps": config.rms_norm_eps}
    return of_mamba2(strengthened(BambaMixer(config, 0), config), settings)


def kimi() -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    from transformers.models.kimi_linear.modeling_kimi_linear import KimiLinearDeltaAttention

    config = transformers.KimiLinearConfig(
        **{**MLP, "linear_num_heads": 2, "linear_head_dim": D // 2, "num_hidden_layers": 2},
        layer_types=["linear_attention", "full_attention"],
    )
    peer = strengthened(KimiLinearDeltaAttention(config, 0), config)
    theirs = dict(peer.named_parameters())
    settings = {"heads": 2, "gate_bias": False, "norm_eps": config.rms_norm_eps}
    return (
        peer,
        mixer_config({"kind": "kda", **settings}).build(D, None),
        {
            "w_qkv.weight": torch.cat([theirs[f"{name}_proj.weight"] for name in "qkv"]),
            "decay_in.weight": theirs["forget_gate.f_a_proj.weight"],
            "decay_out.weight": theirs["forget_gate.f_b_proj.weight"],
            "decay_out.bias": theirs["forget_gate.dt_bias"],
            "gate_in.weight": theirs["g_a_proj.weight"],
            "gate_out.weight": theirs["g_b_proj.weight"],
            "w_b.weight": theirs["b_proj.weight"],
            "w_o.weight": theirs["o_proj.weight"],
            "norm.weight": theirs["o_norm.weight"],
            "a_log": theirs["forget_gate.A_log"].flatten(),
            "conv.weight": taps(theirs["conv1d.weight"]),
        },
    )


BOUNDS = {kimi: 5e-6}
"""the peer multiplies by e^{-G} of a chunk: it is 3.3e-6 from float64, the mixer 2.1e-6"""
PEERS = {"kimi": kimi, "olmo": olmo, "qwen": qwen, "mamba2": mamba2, "bamba": bamba}
every_peer = pytest.mark.parametrize("make", PEERS.values(), ids=PEERS)
Make = Callable[[], tuple[nn.Module, Mixer, dict[str, Tensor]]]


def taps(theirs: Tensor) -> Tensor:
    """The peer's taps are (E, 1, W), the oldest first."""
    return theirs[:, 0].flip(1).T


def strengthened(peer: nn.Module, config: Any) -> nn.Module:
    """With weights large enough to be seen, and with the settings that a cache is made of."""
    torch.manual_seed(3)
    peer.settings = config
    with torch.no_grad():
        for name, parameter in peer.named_parameters():
            if "log" in name or "dt_bias" in name:
                parameter.uniform_(-1, 1)
            else:
                parameter.copy_(0.4 * torch.randn_like(parameter))
    return peer.eval()


def made(make: Make) -> tuple[nn.Module, Mixer, dict[str, Tensor]]:
    """The peer, the mixer with its weights, and these as functions of the peer's parameters."""
    peer, mixer, weights = make()
    assert set(weights) == {name for name, _ in mixer.named_parameters()}
    with torch.no_grad():
        for name, parameter in mixer.named_parameters():
            parameter.copy_(weights[name])
    return peer, mixer, weights


def near(found: Tensor, wanted: Tensor, of_largest: float) -> None:
    torch.testing.assert_close(found, wanted, rtol=0, atol=of_largest * float(wanted.detach().abs().max()))


@every_peer
@pytest.mark.parametrize("T", [1, 7, 70])
def test_outputs_and_gradients_are_the_peers(make: Make, T: int) -> None:
    peer, mixer, weights = made(make)
    x, out = torch.randn(2, T, D), torch.randn(2, T, D)
    given, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    y, wanted = mixer(given), peer(theirs)
    near(y, wanted, BOUNDS.get(make, 2e-6))
    found = torch.autograd.grad((y * out).sum(), [given, *mixer.parameters()])
    parts = list(peer.parameters())
    input_gradient, *gradients = torch.autograd.grad((wanted * out).sum(), [theirs, *parts])
    near(found[0], input_gradient, 1e-5)
    ours = [weights[name] for name, _ in mixer.named_parameters()]
    for reached, gradient in zip(torch.autograd.grad(ours, parts, found[1:]), gradients, strict=True):
        near(reached, gradient, 2e-5)  # the mixer's gradients, handed on to what its weights were copied from


@every_peer
@torch.no_grad()
def test_cached_tokens_are_the_peers(make: Make) -> None:
    peer, mixer, _ = made(make)
    x, state = torch.randn(2, 9, D), mixer.start(2)
    cache = transformers.DynamicCache(config=peer.settings)
    for first, last in ((0, 4), *((t, t + 1) for t in range(4, 9))):
        wanted = peer(x[:, first:last], cache_params=cache)
        y, state = mixer.extend(x[:, first:last], state)
        near(y, wanted, 2e-6)


def test_a_mixer_of_other_weights_is_not_the_peer() -> None:
    peer, mixer, _ = made(olmo)
    with torch.no_grad():
        mixer.get_parameter("a_log").add_(0.01)
        with pytest.raises(AssertionError):
            near(mixer(torch.ones(1, 9, D)), peer(torch.ones(1, 9, D)), 2e-6)

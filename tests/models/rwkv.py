"""RWKV-4 written a second time, token by token, from arXiv:2305.13048, Eq. 11-18 and 22-26, and its figure 2.

One sequence of indices (t,) at a time, channels as vectors; weights by their names in a `Decoder`. The embedding times
√D and the bias of the output are the decoder's own; before a norm, the first changes nothing but the weight of ε.
"""

import torch
from torch import Tensor

from tests.models.paper import Weights, layernorm


def part(w: Weights, name: str) -> Weights:
    """The weights under a name."""
    return {key.removeprefix(f"{name}."): tensor for key, tensor in w.items() if key.startswith(f"{name}.")}


def shifted(x: Tensor, before: Tensor, w: Weights, letter: str) -> Tensor:
    """Eq. 11-15: a token mixed with the one before it, projected."""
    mu = w[f"mu_{letter}"]
    return (mu * x + (1 - mu) * before) @ w[f"w_{letter}.weight"].T


def time_mixing(x: Tensor, w: Weights) -> Tensor:
    """Eq. 11-13, 16 as the recurrence of appendix D, 17."""
    before, above, below, out = torch.zeros_like(x[0]), torch.zeros_like(x[0]), torch.zeros_like(x[0]), []
    decay, bonus = torch.exp(-torch.exp(w["log_rate"])), w["bonus"]
    for now in x:
        r, k, v = (shifted(now, before, w, letter) for letter in "rkv")
        wkv = (above + torch.exp(bonus + k) * v) / (below + torch.exp(bonus + k))
        above, below = decay * above + torch.exp(k) * v, decay * below + torch.exp(k)
        out.append((torch.sigmoid(r) * wkv) @ w["w_out.weight"].T)
        before = now
    return torch.stack(out)


def channel_mixing(x: Tensor, w: Weights) -> Tensor:
    """Eq. 14, 15, 18."""
    before, out = torch.zeros_like(x[0]), []
    for now in x:
        r, k = (shifted(now, before, w, letter) for letter in "rk")
        out.append(torch.sigmoid(r) * (torch.clamp(k, min=0) ** 2 @ w["w_v.weight"].T))
        before = now
    return torch.stack(out)


def model(s: Tensor, w: Weights) -> Tensor:
    """The logits (t, u): a norm after the embedding, both sublayers of each layer, a norm, the output."""
    x = layernorm(w["token.weight"][s] * w["token.weight"].shape[1] ** 0.5, w, "embed_norm")
    layer = 0
    while f"layers.{layer}.norm_1.weight" in w:
        name = f"layers.{layer}"
        x = x + time_mixing(layernorm(x, w, f"{name}.norm_1"), part(w, f"{name}.mixer"))
        x = x + channel_mixing(layernorm(x, w, f"{name}.norm_2"), part(w, f"{name}.channel_mix"))
        layer += 1
    return layernorm(x, w, "norm") @ w["head.weight"].T + w["head.bias"]

"""The paper's Transformer written a second time, equation by equation, from arXiv:2308.07661, Eq. 4-29.

One sequence of indices s (t,) at a time; loops where the paper has sums; weights by their names in a `Decoder`.
"""

import torch
from torch import Tensor

Weights = dict[str, Tensor]


def layernorm(x: Tensor, w: Weights, name: str) -> Tensor:
    """Eq. 8, with ε = 1e-5 next to the variance as in PyTorch."""
    mu = x.mean(1, keepdim=True)
    sigma = (((x - mu) ** 2).mean(1, keepdim=True) + 1e-5).sqrt()
    return w[f"{name}.weight"] * (x - mu) / sigma + w[f"{name}.bias"]


def self_attention(x: Tensor, w: Weights, name: str, n: int) -> Tensor:
    """Eq. 10-17."""
    t, d = x.shape
    h = d // n
    q, k, v = (x @ w[f"{name}.w_qkv.weight"].T).chunk(3, 1)
    r = torch.zeros_like(x)
    for j in range(n):
        head = slice(j * h, (j + 1) * h)
        for i in range(t):
            z = torch.stack([q[i, head] @ k[f, head] for f in range(i + 1)]) / h**0.5
            a = z.exp() / z.exp().sum()
            r[i, head] = sum(a[f] * v[f, head] for f in range(i + 1))
    return r @ w[f"{name}.w_out.weight"].T


def extraction(x: Tensor, taps: Tensor) -> Tensor:
    """Eq. 23 for matrices, 26 and 28 for vectors, 29 for scalars: W_{i-j+1} is taps[i-j]."""
    out = torch.zeros_like(x)
    for i in range(len(x)):
        for j in range(i + 1):
            tap = taps[i - j]
            out[i] += x[j] @ tap if tap.ndim == 2 else x[j] * tap
    return out


def extractor(x: Tensor, w: Weights, name: str) -> Tensor:
    """SHE: Eq. 23-25; HE: Eq. 27, 28, 24, 25; WE: Eq. 26, 24, 25; ME: Eq. 29."""
    inner = x @ w[f"{name}.w_in.weight"].T if f"{name}.w_in.weight" in w else x
    out = extraction(inner, w[f"{name}.w_ext"])
    if f"{name}.w_adj.weight" not in w:
        return out
    return ((x @ w[f"{name}.w_adj.weight"].T) * out) @ w[f"{name}.w_out.weight"].T


def transformer(s: Tensor, w: Weights, heads: int | None) -> Tensor:
    """The logits (t, u) whose softmax is Eq. 21; dropout, which is off when a model is used, is left out."""
    d = w["token.weight"].shape[1]
    one_hot = torch.eye(len(w["token.weight"]), dtype=torch.float64)[s]
    position = torch.eye(len(w["position.table.weight"]), dtype=torch.float64)[: len(s)]
    x = one_hot @ (w["token.weight"] * d**0.5) + position @ (w["position.table.weight"] * d**0.5)  # Eq. 4, 5, 7
    layer = 0
    while f"layers.{layer}.norm_1.weight" in w:
        name = f"layers.{layer}"
        first = layernorm(x, w, f"{name}.norm_1")  # Eq. 9
        mixer = f"{name}.mixer"
        sub_1 = self_attention(first, w, mixer, heads) if heads else extractor(first, w, mixer)
        second = layernorm(sub_1 + x, w, f"{name}.norm_2")  # Eq. 18
        hidden = torch.relu(second @ w[f"{name}.ffn.w_1.weight"].T + w[f"{name}.ffn.w_1.bias"])
        sub_2 = hidden @ w[f"{name}.ffn.w_2.weight"].T + w[f"{name}.ffn.w_2.bias"]  # Eq. 19
        x = sub_2 + sub_1 + x  # Eq. 20
        layer += 1
    return layernorm(x, w, "norm") @ w["head.weight"].T + w["head.bias"]  # Eq. 21

"""Attention, the HE Extractor and the gated delta rule for one head and one text, in a few lines of PyTorch each.

T tokens, L lags, D channels; a key has K numbers, a value V. `projections` come before and after, in all three.

Source: Vaswani et al., arXiv:1706.03762; Chen, arXiv:2308.07661, Eq. 27, 28 and 24; Yang et al., arXiv:2412.06464, Eq.
10. Nothing differs; the mixers of the same names compute the same faster.
"""

import torch
from jaxtyping import Float
from torch import Tensor


def attention(
    q: Float[Tensor, "T K"], k: Float[Tensor, "T K"], v: Float[Tensor, "T V"]
) -> tuple[Float[Tensor, "T V"], Float[Tensor, "T T"]]:
    """What each token reads, and the weights by which it reads all tokens so far: the tokens decide them."""
    scores = q @ k.T / k.shape[1] ** 0.5
    later = torch.ones_like(scores).triu(1).bool()
    weights = scores.masked_fill(later, float("-inf")).softmax(1)
    return weights @ v, weights


def he_extractor(
    z: Float[Tensor, "T D"], adjustment: Float[Tensor, "T D"], taps: Float[Tensor, "L D"]
) -> Float[Tensor, "T D"]:
    """What each token reads: the taps are the same for every text; the token only adjusts their sum."""
    extracted = torch.zeros_like(z)
    for lag in range(min(len(taps), len(z))):
        extracted[lag:] += taps[lag] * z[: len(z) - lag]
    return adjustment * extracted


def gated_delta(
    q: Float[Tensor, "T K"],
    k: Float[Tensor, "T K"],
    v: Float[Tensor, "T V"],
    decay: Float[Tensor, " T"],
    strength: Float[Tensor, " T"],
) -> tuple[Float[Tensor, "T V"], Float[Tensor, "T K V"]]:
    """What each token reads, and the table after each token: its key's old value is erased, its own is written."""
    table, tables = torch.zeros(k.shape[1], v.shape[1], dtype=v.dtype), []
    for t in range(len(k)):
        table = decay[t] * table
        change = strength[t] * (v[t] - k[t] @ table)
        table = table + torch.outer(k[t], change)
        tables.append(table)
    return torch.einsum("tk,tkv->tv", q, torch.stack(tables)), torch.stack(tables)

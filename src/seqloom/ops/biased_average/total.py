"""Sums over tokens that are kept as one: the numerators and the denominator of an average, under their largest key.

sums_k = Σ_j e^{k_j - peak_k} (v_j, 1)          the last of them, the denominator, is 0 where nothing was summed
"""

from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Key: TypeAlias = Float[Tensor, "B K"]
Keys: TypeAlias = Float[Tensor, "B T K"]
Past: TypeAlias = tuple[Float[Tensor, "B P K"], Float[Tensor, "B P D"]]
"""keys and values of the tokens right before"""


class Total(NamedTuple):
    """Sums over tokens for each of K keys, every one of which weights D/K channels."""

    sums: Float[Tensor, "B K V"]
    """D/K numerators, then the denominator"""
    peak: Float[Tensor, "B K"]
    """the largest key among them; 0 before the first"""

    def floor(self) -> Tensor:
        """The peak, and below every number where nothing was summed."""
        return torch.where(self.sums[..., -1] > 0, self.peak, lowest(self.peak.dtype))


def joined(total: Total, k: Tensor, v: Tensor) -> Total:
    """See `seqloom.ops.biased_average.joined`."""
    if k.shape[1] == 0:
        return Total(total.sums.clone(), total.peak.clone())
    k, v = k.to(total.sums.dtype), v.to(total.sums.dtype)
    before = total.floor()
    peak = torch.maximum(before, k.detach().amax(1))
    peak = torch.where(peak > lowest(peak.dtype), peak, 0.0)
    sums = total.sums * (before - peak).exp()[..., None] + weighed(k, v, peak[:, None]).sum(1)
    return Total(sums, peak)


def nothing(batch: int, keys: int, dim: int, like: Tensor) -> Total:
    """The total of no tokens, in float32 or better, where `like` is."""
    exact = torch.promote_types(like.dtype, torch.float32)
    sums = torch.zeros(batch, keys, dim // keys + 1, dtype=exact, device=like.device)
    return Total(sums, sums.new_zeros(batch, keys))


def counted(v: Tensor, keys: int) -> Tensor:
    """Values (…, D) next to the 1 that counts them, key by key: (…, K, D/K + 1)."""
    heads = v.unflatten(-1, (keys, -1))
    return torch.cat([heads, torch.ones_like(heads[..., :1])], -1)


def weighed(k: Tensor, v: Tensor, peak: Tensor) -> Tensor:
    """e^{k - peak} (v, 1): (…, K), (…, D), and a peak that broadcasts → (…, K, D/K + 1)."""
    return (k - peak).exp().unsqueeze(-1) * counted(v, k.shape[-1])


def lowest(kind: torch.dtype) -> float:
    """A finite number below every key."""
    return torch.finfo(kind).min

"""Running sums over tokens: the numerators and the denominator of an average, relative to the largest key.

sums_k = Σ_j e^{k_j - peak_k} (v_j, 1)          the last entry is the denominator, 0 before the first token
"""

from typing import NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Key: TypeAlias = Float[Tensor, "B K"]
Keys: TypeAlias = Float[Tensor, "B T K"]
Past: TypeAlias = tuple[Float[Tensor, "B P K"], Float[Tensor, "B P D"]]
"""keys and values of the tokens directly before"""


class Total(NamedTuple):
    """The sums for each of K keys; a key weights D/K channels."""

    sums: Float[Tensor, "B K V"]
    """D/K numerators, then the denominator"""
    peak: Float[Tensor, "B K"]
    """the largest key so far; 0 before the first token"""

    def floor(self) -> Tensor:
        """The peak; before the first token, a number below every key."""
        return torch.where(self.sums[..., -1] > 0, self.peak, lowest(self.peak.dtype))


def add_tokens(total: Total, k: Tensor, v: Tensor) -> Total:
    """See `seqloom.ops.biased_average.add_tokens`."""
    if k.shape[1] == 0:
        return Total(total.sums.clone(), total.peak.clone())
    k, v = k.to(total.sums.dtype), v.to(total.sums.dtype)
    old_peak = total.floor()
    peak = torch.maximum(old_peak, k.detach().amax(1))
    peak = torch.where(peak > lowest(peak.dtype), peak, 0.0)  # 0 where all keys are -inf: no token yet
    sums = total.sums * (old_peak - peak).exp()[..., None] + weighted_values(k, v, peak[:, None]).sum(1)
    return Total(sums, peak)


def empty_total(batch: int, keys: int, dim: int, like: Tensor) -> Total:
    """The total of no tokens, at least float32, on the device of `like`."""
    wide_dtype = torch.promote_types(like.dtype, torch.float32)
    sums = torch.zeros(batch, keys, dim // keys + 1, dtype=wide_dtype, device=like.device)
    return Total(sums, sums.new_zeros(batch, keys))


def with_ones(v: Tensor, keys: int) -> Tensor:
    """Values (…, D) with a 1 appended for each key, for the denominator: (…, K, D/K + 1)."""
    heads = v.unflatten(-1, (keys, -1))
    return torch.cat([heads, torch.ones_like(heads[..., :1])], -1)


def weighted_values(k: Tensor, v: Tensor, peak: Tensor) -> Tensor:
    """e^{k - peak} (v, 1): (…, K), (…, D), and a peak that broadcasts → (…, K, D/K + 1)."""
    return (k - peak).exp().unsqueeze(-1) * with_ones(v, k.shape[-1])


def lowest(dtype: torch.dtype) -> float:
    """A finite number below every key."""
    return torch.finfo(dtype).min

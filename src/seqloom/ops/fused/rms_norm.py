"""RMSNorm by torch, in a form that forward mode and `torch.func.linearize` may follow.

    y = x / √(mean of x² + ε) ∘ gain            over the last axes

torch takes its own operator apart under these transforms, and adds ε in place to a mean that `linearize` has made a
constant: the function that it returns then fails with gradients on, and without them adds ε at each call.

Source: Zhang and Sennrich, arXiv:1910.07467. Nothing differs.
"""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.graphs import is_transformed


def rms_norm(x: Tensor, sizes: Sequence[int], gain: Tensor | None = None, eps: float | None = None) -> Tensor:
    """x over the root mean square of its last axes, which have these sizes, times the gain; ε as torch's by default."""
    if not is_transformed():
        return torch.rms_norm(x, sizes, gain, eps)
    axes = tuple(range(-len(sizes), 0))
    least = torch.finfo(x.dtype).eps if eps is None else eps
    y = x * (x.square().mean(axes, keepdim=True) + least).rsqrt()
    return y if gain is None else y * gain


@final
class RMSNorm(nn.RMSNorm):
    """torch's module, by `rms_norm`."""

    @override
    def forward(self, x: Tensor) -> Tensor:
        return rms_norm(x, self.normalized_shape, self.weight, self.eps)

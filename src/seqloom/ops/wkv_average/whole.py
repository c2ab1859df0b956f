"""The average over whole rows without forgetting: a softmax over time in each channel.

y = (Σ_j e^{k_j} v_j) / (Σ_j e^{k_j})                the same for every token of the row
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import backends
from seqloom.ops.pack import within


def average(k: Stream, v: Stream, lengths: Lengths | None = None) -> Float[Tensor, "B 1 D"]:
    """The average of v (B, T, D) under keys k. With `lengths` (B,) a row has that many tokens, then padding."""
    if backends.forced("wkv_average") != "reference":
        k = k - k.detach().amax(1, keepdim=True)  # cancels in the ratio, and keeps e^k finite
    e = k.exp()
    if lengths is not None:
        e = torch.where(within(lengths, k.shape[1])[:, :, None], e, 0.0)
    sums = e.sum(1, keepdim=True)
    if lengths is not None:
        sums = sums.clamp_min(torch.finfo(sums.dtype).tiny)  # a row without tokens has 0, and its output is not used
    return (e * v).sum(1, keepdim=True) / sums

"""The reference of positive features: without stabilization, so that they overflow where e^x does.

It computes only the terms of the equation, so that counting its operations prices the equation; a maximum for
stabilization is not part of a price. A state that was divided by e^peak is multiplied by it, by the first token's
decay.
"""

import torch
from torch import Tensor

from seqloom.ops.random_features.stable import LOWEST


def exponentials(
    q: Tensor, k: Tensor, peak: Tensor | None, keep: Tensor | None
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None]:
    """The features of `positive` in `seqloom.ops.random_features`; the new peak is 0."""
    q, k = q.exp(), k.exp()
    if keep is not None:
        k = torch.where(keep[:, None, :, None], k, 0.0)
    after = q.new_zeros(q.shape[:2])
    if peak is None or not bool(((peak > LOWEST) & (peak != 0)).any()):
        return q, k, None, after
    g = q.new_zeros(q.shape[:3])
    g[:, :, 0] = torch.where(peak > LOWEST, peak, 0.0)
    return q, k, g, after

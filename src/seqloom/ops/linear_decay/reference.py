"""The reference: the sum token by token. Other backends are compared with it, and prices count its operations."""

import torch
from torch import Tensor


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    outputs = []
    for t in range(q.shape[2]):
        if g is not None:
            factor = torch.exp(g if g.ndim == 1 else g[:, :, t])
            S = S * (factor[..., None] if g.ndim == 4 else factor[..., None, None])
        S = S + k[:, :, t, :, None] * v[:, :, t, None, :]
        outputs.append(q[:, :, t, None, :] @ S)
    return torch.cat(outputs, 2), S

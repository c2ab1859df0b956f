"""The reference: the steps one by one. `micro_steps` is compared with it, and prices count its operations."""

import torch
from torch import Tensor


def delta_steps(
    q: Tensor, k: Tensor, v: Tensor, strength: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_steps`; shapes as in `delta_steps` there, T at least 1."""
    S = v.new_zeros(*q.shape[:2], q.shape[3], v.shape[4]) if state is None else state
    write = strength[..., None] * k
    outputs = []
    for t in range(q.shape[2]):
        if g is not None:
            S = g[:, :, t, None, None].exp() * S
        for j in range(k.shape[3]):
            missing = v[:, :, t, j, None, :] - k[:, :, t, j, None, :] @ S  # (B, H, 1, V)
            S = S + write[:, :, t, j, :, None] * missing
        outputs.append(q[:, :, t, None, :] @ S)
    return torch.cat(outputs, 2), S

"""The reference: the delta rule token by token.

Other backends are compared with it, and prices count its operations.
"""

import torch
from torch import Tensor


def delta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule`; shapes as in `delta` there, T at least 1; `erase` None is 0."""
    S = v.new_zeros(*k.shape[:2], k.shape[3], v.shape[3]) if state is None else state
    outputs = []
    for t in range(q.shape[2]):
        erased = 0.0 if erase is None else erase[:, :, t, None, :] @ S  # (B, H, 1, V)
        if g is not None:
            decay = g[:, :, t].exp()
            S = S * (decay[..., None] if g.ndim == 4 else decay[..., None, None])
        value = v[:, :, t, None, :]
        if write is None:
            S = S + k[:, :, t, :, None] * (value - erased)
        else:
            S = S - write[:, :, t, :, None] * erased + k[:, :, t, :, None] * value
        outputs.append(q[:, :, t, None, :] @ S)
    return torch.cat(outputs, 2), S

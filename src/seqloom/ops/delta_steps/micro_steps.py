"""Computes n steps as n tokens of the delta rule: the state decays at the first, and the last gives the output."""

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.delta_rule import delta


def delta_steps(
    q: Tensor, k: Tensor, v: Tensor, strength: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_steps`; shapes as in `delta_steps` there, T at least 1."""
    n = k.shape[3]
    write, erase = strength[..., None] * k, k
    if g is not None:  # `delta` reads with `erase` before the state decays
        erase = torch.cat([g.exp()[..., None, None] * k[:, :, :, :1], k[:, :, :, 1:]], 3)
        g = pad(g[..., None], (0, n - 1)).flatten(2)
    q = pad(q[:, :, :, None], (0, 0, n - 1, 0))
    q, write, v, erase = (x.flatten(2, 3) for x in (q, write, v, erase))
    y, after = delta(q, write, v, erase, None, g, state)
    return y[:, :, n - 1 :: n], after

"""The decaying sum as it is written, token by token, and its price, counted from it and the same for every token.

Other backends are compared with it.
"""

from typing import Literal

import torch
from torch import Tensor

from seqloom.core.cost import Cost


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


def price(rows: int, H: int, K: int, V: int, decay: Literal["none", "head", "channel"] = "none") -> Cost:
    """The price of `rows` tokens in H heads with keys of width K and values of width V: e^g, e^g S, kᵀ v, and q S."""
    state = H * K * V
    return Cost(
        mul=rows * state * (2 if decay == "none" else 3),
        add=rows * (state + H * (K - 1) * V),
        exp=rows * {"none": 0, "head": H, "channel": H * K}[decay],
        path=("multiplication", "addition", "multiplication", "cumulation"),
    )

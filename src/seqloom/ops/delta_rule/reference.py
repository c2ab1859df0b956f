"""The delta rule as it is written, token by token, and its price, counted from it and the same for every token.

Other backends are compared with it.
"""

from typing import Literal

import torch
from torch import Tensor

from seqloom.core.cost import Cost


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


def price(
    rows: int, H: int, K: int, V: int, decay: Literal["none", "head", "channel"] = "none", write: bool = False
) -> Cost:
    """The price of `rows` tokens in H heads: erase S, e^g and its product with S, the write, and q S.

    `write`: whether the write key differs from k.
    """
    state = H * K * V
    products = 2 * H * (K - 1) * V  # erase S and q S
    writes = 2 * state if write else state + H * V
    return Cost(
        mul=rows * state * (3 + (decay != "none") + write),
        add=rows * (products + writes),
        exp=rows * {"none": 0, "head": H, "channel": H * K}[decay],
        path=("multiplication", "cumulation", "addition", "multiplication", "addition", "multiplication", "cumulation"),
    )

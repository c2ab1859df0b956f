"""The steps as they are written, one by one, and their price, counted from them and the same for every token.

`micro_steps` is compared with it.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Step


def delta_steps(
    q: Tensor, k: Tensor, v: Tensor, strength: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule.delta_steps`; shapes as in `delta_steps` there, T at least 1."""
    S = v.new_zeros(*q.shape[:2], q.shape[3], v.shape[4]) if state is None else state
    write = strength[..., None] * k
    outputs = []
    for t in range(q.shape[2]):
        if g is not None:
            S = g[:, :, t, None, None].exp() * S
        for j in range(k.shape[3]):
            error = v[:, :, t, j, None, :] - k[:, :, t, j, None, :] @ S  # (B, H, 1, V)
            S = S + write[:, :, t, j, :, None] * error
        outputs.append(q[:, :, t, None, :] @ S)
    return torch.cat(outputs, 2), S


def price(rows: int, H: int, K: int, V: int, steps: int, decay: bool) -> Cost:
    """The price of `rows` tokens in H heads: e^g and its product with S; per step β k, k S and the write; q S."""
    state = H * K * V
    read = H * (K - 1) * V  # the additions of k S or q S
    step: tuple[Step, ...] = ("multiplication", "cumulation", "addition", "multiplication", "addition")
    return Cost(
        mul=rows * (steps * (2 * state + H * K) + state + decay * state),
        add=rows * (steps * (read + H * V + state) + read),
        exp=rows * H * decay,
        path=(*steps * step, "multiplication", "cumulation"),
    )

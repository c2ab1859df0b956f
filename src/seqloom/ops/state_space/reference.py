"""The reference of the three models, token by token, with only the terms of the equation.

Counting their operations prices the equation. What depends on weights alone is computed at each token, so that a step
has the same price as a token of a sequence.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from seqloom.ops.state_space.discretise import DENSE

System: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""returns the weights; called at each token"""


def joint(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, N) → y (B, T, D) and x after `lengths` tokens or the last. Δ multiplies B u, not B."""
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        A, B, C, step = system()
        x = u.new_zeros(len(u), len(A)) if x is None else x
        bar, through = DENSE[method](A, torch.eye(len(A), dtype=A.dtype, device=A.device), step)
        x = _held(x @ bar.mT + token @ B.mT @ through.mT, x, t, lengths)
        outputs.append(x @ C.mT)
    return torch.stack(outputs, 1), None if state is None else x


def single(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, D, N) → y (B, T, D, M) and x."""
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        A, B, C, step = system()
        x = u.new_zeros(len(u), len(C), len(A)) if x is None else x
        A_bar, B_bar = DENSE[method](A, B, step)
        turned = (x.transpose(0, 1) @ A_bar.mT).transpose(0, 1)
        x = _held(turned + B_bar * token[..., None], x, t, lengths)
        outputs.append((x.transpose(0, 1) @ C.mT).transpose(0, 1))
    return torch.stack(outputs, 1), None if state is None else x


def low_rank(u: Tensor, system: System, state: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, D, H) → y (B, T, D) and x.

    (2/Δ - A) x_t = (2/Δ + A) x_{t-1} + 2 B u_t, with 2/Δ - A = 2/Δ - Λ + P P* inverted by Woodbury's identity.
    """
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        eigenvalues, P, B, C, step = system()
        x = torch.zeros_like(C).expand(len(u), -1, -1) if x is None else x
        rate = (2 / step)[:, None]
        below = torch.reciprocal(rate - eigenvalues)
        seen = below * P
        share = torch.reciprocal(1 + dot(P, seen))
        v = (rate + eigenvalues) * x - P * dot(P, x)[..., None] + 2 * B * token[..., None]
        v = below * v
        x = _held(v - seen * (share * dot(P, v))[..., None], x, t, lengths)
        outputs.append(2 * (C.real * x.real - C.imag * x.imag).sum(-1))
    return torch.stack(outputs, 1), None if state is None else x


def dot(left: Tensor, right: Tensor) -> Tensor:
    """left* right over both halves of the pairs: 2 Re Σ_n conj(left_n) right_n, a real number."""
    return 2 * (left.real * right.real + left.imag * right.imag).sum(-1)


def _held(new: Tensor, old: Tensor, t: int, lengths: Tensor | None) -> Tensor:
    """The new state in rows that have token t, the old state where t is padding."""
    if lengths is None:
        return new
    return torch.where((t < lengths).view(-1, *[1] * (new.ndim - 1)), new, old)

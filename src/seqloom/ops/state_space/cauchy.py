"""Sums over a system's poles at points on the unit circle, in pairs of conjugates and real numbers throughout.

    q_n = 1 / ((ιS - Cμ_n) (ιS - Cμ̄_n)) = 1 / (C²|μ_n|² - S² - 2ιSC Re μ_n),   out = Σ_n q_n v_n

S and C are sine and cosine of half a point's angle. At most `HELD` of the q are in memory at a time, forward and
backward; they are recomputed for the gradients.
"""

from typing import Any

import torch
from torch import Tensor

HELD = 1 << 19
"""numbers q in memory at a time: a few times the size of a core's cache"""


def poles(size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Sums (D, 2, F, V), real part and imaginary part, from |μ|² and Re μ (D, H), v (D, H, V), S and C (F,)."""
    out: Tensor = _Poles.apply(size, real, v, sine, cosine)  # type: ignore[no-untyped-call]  # torch does not type it
    return out


class _Poles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
        ctx.save_for_backward(size, real, v, sine, cosine)
        products = (_q(size[part], real[part], sine, cosine) @ v[part, None] for part in _parts(size, sine))
        return torch.cat(list(products))

    @staticmethod
    def backward(ctx: Any, given: Tensor) -> tuple[Tensor | None, ...]:
        size, real, v, sine, cosine = ctx.saved_tensors
        gradients = []
        for part in _parts(size, sine):
            q, g = _q(size[part], real[part], sine, cosine), given[part]
            dv = (q.mT @ g).sum(1)
            dq = g @ v[part, None].mT
            re, im = q[:, 0], q[:, 1]
            a, b = re * re - im * im, 2 * re * im  # q²
            dx, dy = -(a * dq[:, 0] + b * dq[:, 1]), b * dq[:, 0] - a * dq[:, 1]
            gradients.append(((cosine * cosine) @ dx, (-2 * sine * cosine) @ dy, dv))
        return (*(torch.cat(grads) for grads in zip(*gradients, strict=True)), None, None)


def _q(size: Tensor, real: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """(D, 2, F, H)."""
    x = torch.addcmul(-(sine * sine)[:, None], (cosine * cosine)[:, None], size[:, None])
    y = (-2 * sine * cosine)[:, None] * real[:, None]
    below = torch.reciprocal(x * x + y * y)
    return torch.stack([x * below, -y * below], 1)


def _parts(size: Tensor, sine: Tensor) -> list[slice]:
    many = max(1, HELD // max(2 * len(sine) * size.shape[1], 1))
    return [slice(first, first + many) for first in range(0, len(size), many)]

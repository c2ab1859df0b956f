"""S4's kernel from its truncated generating function at the roots of unity, and the contribution of a state.

    K̂(z) = Σ_{l<L} C Ā^l B̄ z^l = C̃ (I - Ā z)^{-1} B̄,   C̃ = C (I - Ā^L)                            where z^L = 1
         = Δ e^{ιθ/2} / 2 · (k(C̃, B) - h k(C̃, P) k(P*, B) / (1 + h k(P*, P)))                  z = e^{-ιθ}, h = CΔ/2
    k(v, w) = Σ_n v_n w_n / (ιS - Cμ_n),   μ = ΔΛ/2,   S, C = sin θ/2, cos θ/2

The sums over n are those of `poles`, in pairs of conjugates and real numbers throughout.

Sums are over both halves of the conjugate pairs. In this form z = -1, where 2/(1+z) is infinite, needs no special case.
Near z = 1, which decides about slow states, nothing cancels: Ā^L - I is computed as E_L, from E_1 = Ā - I by
E_2n = 2 E_n + E_n², which is accurate for the shortest steps. So float32 is sufficient.

Source: Gu et al., arXiv:2111.00396, Algorithm 1 and appendix C.3; the two rearrangements are ours.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops.lag_sum import lags
from seqloom.ops.lag_sum.fft import points
from seqloom.ops.state_space import krylov
from seqloom.ops.state_space.reference import System, dot

HELD = 1 << 19
"""numbers q in memory at a time: a few times the size of a core's cache"""


def low_rank(u: Tensor, system: System, state: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """See `reference.low_rank`."""
    eigenvalues, P, B, C, step = system()
    T = u.shape[1]
    L = points(T)
    away = differences(eigenvalues, P, step, L)
    y = lags(u, kernel(eigenvalues, P, B, C, step, away, L)[:, :T].mT)
    if state is None:
        return y, None
    eye = torch.eye(away[0].shape[-1], dtype=u.dtype, device=u.device)
    squared = [eye + power for power in away[: T.bit_length()]]
    before = _parted(state)
    y = y + krylov.kernel(squared, squared[0] @ before.permute(1, 2, 0), row(C)[:, None], T)[:, 0].permute(1, 2, 0)
    new_state = krylov.final(squared, entered(eigenvalues, P, B, step), u, before, lengths)
    return y, torch.complex(*new_state.chunk(2, -1))


def kernel(eigenvalues: Tensor, P: Tensor, B: Tensor, C: Tensor, step: Tensor, away: list[Tensor], L: int) -> Tensor:
    """C Ā^l B̄ for l < L: (D, L)."""
    angle = torch.arange(L // 2 + 1, dtype=torch.float64, device=step.device) * (torch.pi / L)
    sine, cosine = torch.sin(angle).to(step.dtype), torch.cos(angle).to(step.dtype)
    cut = cut_off(C, away, L)
    mu = eigenvalues * (step / 2)[:, None]
    v = torch.stack(torch.broadcast_tensors(cut * B, cut * P, P.conj() * B, P.conj() * P), -1)  # (D, H, 4)
    parts = torch.cat([2 * v.real, -2 * (v * mu.conj()[..., None]).real], -1)
    sums = poles(mu.real.square() + mu.imag.square(), mu.real, parts, sine, cosine)
    sums = torch.complex(sums[:, 0], sums[:, 1])  # (D, F, 8)
    with_sine, with_cosine = sums.chunk(2, -1)
    k = with_sine * torch.complex(torch.zeros_like(sine), sine)[:, None] + with_cosine * cosine[:, None]
    h = cosine * (step / 2)[:, None]
    spectrum = k[..., 0] - h * k[..., 1] * k[..., 2] / (1 + h * k[..., 3])
    return torch.fft.irfft(spectrum * torch.complex(cosine, sine) * (step / 2)[:, None], L)


def differences(eigenvalues: Tensor, P: Tensor, step: Tensor, L: int) -> list[Tensor]:
    """Ā^n - I for n = 1, 2, 4, … up to L, over real and imaginary parts: each (D, N, N)."""
    inverse, share = _woodbury(eigenvalues, P, step)
    turned = inverse * eigenvalues
    seen = 2 * share[:, None] * inverse * P
    heard = 2 * P * (1 + turned.conj())
    across = (2 * turned).real.diag_embed(), (2 * turned).imag.diag_embed()
    whole = torch.cat([torch.cat([across[0], -across[1]], -1), torch.cat([across[1], across[0]], -1)], -2)
    away = [whole - _parted(seen)[:, :, None] * _parted(heard)[:, None]]
    while 2 << (len(away) - 1) <= L:
        away.append(2 * away[-1] + away[-1] @ away[-1])
    return away


def cut_off(C: Tensor, away: list[Tensor], L: int) -> Tensor:
    """C̃ = C (I - Ā^L), for one half of the pairs (D, H)."""
    c_row = row(C)[:, None]
    difference = torch.zeros_like(c_row)  # C Ā^n - C
    for k, power in enumerate(away):
        if L >> k & 1:
            difference = difference + (c_row + difference) @ power
    real, imag = difference[:, 0].chunk(2, -1)
    return torch.complex(-real / 2, imag / 2)


def entered(eigenvalues: Tensor, P: Tensor, B: Tensor, step: Tensor) -> Tensor:
    """B̄ over real and imaginary parts: (D, N)."""
    inverse, share = _woodbury(eigenvalues, P, step)
    solved = inverse * B
    return _parted(2 * (solved - inverse * P * (share * dot(P, solved))[:, None]))


def row(C: Tensor) -> Tensor:
    """The row by which y = 2 Re(C x) depends on the real and imaginary parts of x: (D, N)."""
    return torch.cat([2 * C.real, -2 * C.imag], -1)


def _woodbury(eigenvalues: Tensor, P: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """(2/Δ - Λ)^{-1} (D, H) and 1 / (1 + P* (2/Δ - Λ)^{-1} P) (D,)."""
    inverse = torch.reciprocal((2 / step)[:, None] - eigenvalues)
    return inverse, torch.reciprocal(1 + dot(P, inverse * P))


def _parted(x: Tensor) -> Tensor:
    return torch.cat([x.real, x.imag], -1)


def poles(size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Sums (D, 2, F, V), real part and imaginary part, from |μ|² and Re μ (D, H), v (D, H, V), S and C (F,).

        q_n = 1 / ((ιS - Cμ_n) (ιS - Cμ̄_n)) = 1 / (C²|μ_n|² - S² - 2ιSC Re μ_n),   out = Σ_n q_n v_n

    At most `HELD` of the q are in memory at a time, forward and backward; they are recomputed for the gradients.
    """
    out: Tensor = _Poles.apply(size, real, v, sine, cosine)  # type: ignore[no-untyped-call]  # torch does not type it
    return out


class _Poles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
        ctx.save_for_backward(size, real, v, sine, cosine)
        products = (_q(size[part], real[part], sine, cosine) @ v[part, None] for part in _parts(size, sine))
        return torch.cat(list(products))

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        size, real, v, sine, cosine = ctx.saved_tensors
        gradients = []
        for part in _parts(size, sine):
            q, g = _q(size[part], real[part], sine, cosine), slope[part]
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

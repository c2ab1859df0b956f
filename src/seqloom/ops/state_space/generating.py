"""S4's kernel from its truncated generating function at the roots of unity, and what a state adds to the outputs.

    K̂(z) = Σ_{l<L} C Ā^l B̄ z^l = C̃ (I - Ā z)^{-1} B̄,   C̃ = C (I - Ā^L)                            where z^L = 1
         = Δ e^{ιθ/2} / 2 · (k(C̃, B) - h k(C̃, P) k(P*, B) / (1 + h k(P*, P)))                  z = e^{-ιθ}, h = CΔ/2
    k(v, w) = Σ_n v_n w_n / (ιS - Cμ_n),   μ = ΔΛ/2,   S, C = sin θ/2, cos θ/2

Sums over n are over both halves of the conjugate pairs; `poles` computes them in real numbers. In this form z = -1,
where 2/(1+z) is infinite, needs no special case. Near z = 1, which matters for slow states, nothing cancels: Ā^L - I is
computed as E_L, from E_1 = Ā - I by E_2n = 2 E_n + E_n², which is accurate for the shortest steps. So float32 is
sufficient.

Source: Gu et al., arXiv:2111.00396, Algorithm 1 and appendix C.3; the two rearrangements are ours.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import is_transformed
from seqloom.ops.lag_sum import lags
from seqloom.ops.lag_sum.fft import points
from seqloom.ops.state_space import krylov
from seqloom.ops.state_space.reference import System, dot

AT_ONCE = 1 << 19
"""numbers q that are in memory at a time: a few times the size of a core's cache"""


def low_rank(u: Tensor, system: System, state: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """See `reference.low_rank`."""
    eigenvalues, P, B, C, step = system()
    T = u.shape[1]
    L = points(T)
    E = differences(eigenvalues, P, step, L)
    y = lags(u, kernel(eigenvalues, P, B, C, step, E, L)[:, :T].mT)
    if state is None:
        return y, None
    eye = torch.eye(E[0].shape[-1], dtype=u.dtype, device=u.device)
    powers = [eye + difference for difference in E[: T.bit_length()]]
    x = _real(state)
    from_state = krylov.kernel(powers, powers[0] @ x.permute(1, 2, 0), row(C)[:, None], T)[:, 0]
    y = y + from_state.permute(1, 2, 0)
    new_state = krylov.final(powers, discrete_B(eigenvalues, P, B, step), u, x, lengths)
    return y, torch.complex(*new_state.chunk(2, -1))


def kernel(eigenvalues: Tensor, P: Tensor, B: Tensor, C: Tensor, step: Tensor, E: list[Tensor], L: int) -> Tensor:
    """C Ā^l B̄ for l < L: (D, L). `E` are the `differences`."""
    angle = torch.arange(L // 2 + 1, dtype=torch.float64, device=step.device) * (torch.pi / L)
    sine, cosine = torch.sin(angle).to(step.dtype), torch.cos(angle).to(step.dtype)
    truncated = truncated_C(C, E, L)
    mu = eigenvalues * (step / 2)[:, None]
    v = torch.stack(torch.broadcast_tensors(truncated * B, truncated * P, P.conj() * B, P.conj() * P), -1)  # (D, H, 4)
    # v / (ιS - Cμ) and its conjugate have the sum q (2 ιS Re v - 2 C Re(v μ̄))
    numerators = torch.cat([2 * v.real, -2 * (v * mu.conj()[..., None]).real], -1)
    sums = poles(mu.real.square() + mu.imag.square(), mu.real, numerators, sine, cosine)
    sums = torch.complex(sums[:, 0], sums[:, 1])  # (D, F, 8)
    sine_sums, cosine_sums = sums.chunk(2, -1)
    k = sine_sums * torch.complex(torch.zeros_like(sine), sine)[:, None] + cosine_sums * cosine[:, None]
    h = cosine * (step / 2)[:, None]
    spectrum = k[..., 0] - h * k[..., 1] * k[..., 2] / (1 + h * k[..., 3])
    return torch.fft.irfft(spectrum * torch.complex(cosine, sine) * (step / 2)[:, None], L)


def differences(eigenvalues: Tensor, P: Tensor, step: Tensor, L: int) -> list[Tensor]:
    """E_n = Ā^n - I for n = 1, 2, 4, … up to L, over real and imaginary parts: each (D, N, N).

    By Woodbury's identity E_1 is a complex diagonal matrix less a matrix of rank 1.
    """
    inverse, middle = _woodbury(eigenvalues, P, step)
    ratio = inverse * eigenvalues
    left = 2 * middle[:, None] * inverse * P
    right = 2 * P * (1 + ratio.conj())
    real, imag = (2 * ratio).real.diag_embed(), (2 * ratio).imag.diag_embed()
    diagonal = torch.cat([torch.cat([real, -imag], -1), torch.cat([imag, real], -1)], -2)
    E = [diagonal - _real(left)[:, :, None] * _real(right)[:, None]]
    while 2 << (len(E) - 1) <= L:
        E.append(2 * E[-1] + E[-1] @ E[-1])
    return E


def truncated_C(C: Tensor, E: list[Tensor], L: int) -> Tensor:
    """C̃ = C (I - Ā^L), for one half of the pairs: (D, H)."""
    c_row = row(C)[:, None]
    difference = torch.zeros_like(c_row)  # C Ā^n - C, for the n of the bits of L so far
    for k, E_n in enumerate(E):
        if L >> k & 1:
            difference = difference + (c_row + difference) @ E_n
    real, imag = difference[:, 0].chunk(2, -1)
    return torch.complex(-real / 2, imag / 2)


def discrete_B(eigenvalues: Tensor, P: Tensor, B: Tensor, step: Tensor) -> Tensor:
    """B̄ over real and imaginary parts: (D, N)."""
    inverse, middle = _woodbury(eigenvalues, P, step)
    inverse_B = inverse * B
    return _real(2 * (inverse_B - inverse * P * (middle * dot(P, inverse_B))[:, None]))


def row(C: Tensor) -> Tensor:
    """The row by which y = 2 Re(C x) depends on the real and imaginary parts of x: (D, N)."""
    return torch.cat([2 * C.real, -2 * C.imag], -1)


def _woodbury(eigenvalues: Tensor, P: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """(2/Δ - Λ)^{-1} (D, H) and 1 / (1 + P* (2/Δ - Λ)^{-1} P) (D,)."""
    inverse = torch.reciprocal((2 / step)[:, None] - eigenvalues)
    return inverse, torch.reciprocal(1 + dot(P, inverse * P))


def _real(x: Tensor) -> Tensor:
    """The real parts, then the imaginary parts: (…, H) → (…, N)."""
    return torch.cat([x.real, x.imag], -1)


def poles(size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Sums (D, 2, F, V), real part and imaginary part, from |μ|² and Re μ (D, H), v (D, H, V), S and C (F,).

        q_n = 1 / ((ιS - Cμ_n) (ιS - Cμ̄_n)) = 1 / (C²|μ_n|² - S² - 2ιSC Re μ_n),   out = Σ_n q_n v_n

    At most `AT_ONCE` of the q are in memory at a time, forward and backward; they are recomputed for the gradients.
    """
    if is_transformed():
        return _q(size, real, sine, cosine) @ v[:, None]
    out: Tensor = _Poles.apply(size, real, v, sine, cosine)  # type: ignore[no-untyped-call]  # torch does not type it
    return out


class _Poles(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, size: Tensor, real: Tensor, v: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
        ctx.save_for_backward(size, real, v, sine, cosine)
        products = (_q(size[part], real[part], sine, cosine) @ v[part, None] for part in _parts(size, sine))
        return torch.cat(list(products))

    @staticmethod
    def backward(ctx: Any, dout: Tensor) -> tuple[Tensor | None, ...]:
        size, real, v, sine, cosine = ctx.saved_tensors
        gradients = []
        for part in _parts(size, sine):
            q = _q(size[part], real[part], sine, cosine)
            dv = (q.mT @ dout[part]).sum(1)
            dq = dout[part] @ v[part, None].mT
            q_re, q_im = q[:, 0], q[:, 1]
            square_re, square_im = q_re * q_re - q_im * q_im, 2 * q_re * q_im  # q², since dq = -q² d(1/q)
            dx = -(square_re * dq[:, 0] + square_im * dq[:, 1])
            dy = square_im * dq[:, 0] - square_re * dq[:, 1]
            gradients.append(((cosine * cosine) @ dx, (-2 * sine * cosine) @ dy, dv))
        return (*(torch.cat(grads) for grads in zip(*gradients, strict=True)), None, None)


def _q(size: Tensor, real: Tensor, sine: Tensor, cosine: Tensor) -> Tensor:
    """Real and imaginary part of q = 1 / (x + ιy): (D, 2, F, H)."""
    x = torch.addcmul(-(sine * sine)[:, None], (cosine * cosine)[:, None], size[:, None])
    y = (-2 * sine * cosine)[:, None] * real[:, None]
    inverse = torch.reciprocal(x * x + y * y)
    return torch.stack([x * inverse, -y * inverse], 1)


def _parts(size: Tensor, sine: Tensor) -> list[slice]:
    """The channels, in parts whose q are in memory together."""
    channels = max(1, AT_ONCE // max(2 * len(sine) * size.shape[1], 1))
    return [slice(first, first + channels) for first in range(0, len(size), channels)]

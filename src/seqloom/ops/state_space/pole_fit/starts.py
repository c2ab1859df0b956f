"""Initial poles, from the singular vectors of a Hankel matrix H_ij = w_{i+j+1}, or on a circle.

    truncated   H of all taps and zeros after them; A = Uᵀ U', U' is U moved up by a row: balanced truncation of the
                finite filter. The eigenvalues of A are never outside the unit circle
    windowed    H of half as many rows, filled with taps; U A = U' by least squares: finds sums of exponentials exactly
    circle      evenly around a circle on which exponentials decay to 1/1000 at lag L: L/2 such poles fit any taps

U are the vectors of the 2N largest singular values, for N poles and their conjugates. A conjugate pair or a real
eigenvalue of A is one exponential; the N with the largest norm are kept.

Source: Kung, A new identification and model reduction algorithm via singular value decompositions, 1978. The vectors
come from a random subspace that H is applied to (Halko, Martinsson and Tropp, arXiv:0909.4061), through the FFT.
"""

import math

import torch
from torch import Tensor
from torch.linalg import eigh, eigvals, lstsq, qr

from seqloom.ops.state_space.pole_fit.weights import Target, fit_weights, norms, waves

FASTEST = 5.0
"""the largest rate of decay per token; a larger one would only have a larger weight"""
EXTRA_VECTORS, ITERATIONS = 8, 6
"""vectors of the random subspace beyond those that are wanted, and the number of times that H is applied to it"""


def truncate_filter(target: Target, order: int) -> tuple[Tensor, Tensor]:
    """Rates and weights (D, N) of the poles by balanced truncation of the finite filter."""
    w = target.wanted[:, : target.length - 1]
    U = leading(w, max(1, w.shape[1]), 2 * order)
    shifted = torch.cat([U[:, 1:], torch.zeros_like(U[:, :1])], 1)
    return largest(eigvals(U.mT @ shifted), target, order)


def fit_hankel(target: Target, order: int) -> tuple[Tensor, Tensor]:
    """Rates and weights (D, N) of the poles by least squares on a Hankel matrix of taps alone."""
    w = target.wanted[:, : target.length - 1]
    rows = max(2, (w.shape[1] + 1) // 2)
    U = leading(w, rows, min(2 * order, rows - 1))
    A = lstsq(U[:, :-1], U[:, 1:], driver="gelsd").solution
    return largest(eigvals(A), target, order)


def circle(target: Target, order: int) -> tuple[Tensor, Tensor]:
    """Rates and weights (D, N) of poles evenly around a circle, whose weights are fitted to the taps."""
    angle = math.pi * (torch.arange(order, dtype=torch.float64) + 0.5) / order
    radius = torch.full_like(angle, 1e-3 ** (1 / target.length))
    return largest(torch.polar(radius, angle).expand(len(target.wanted), -1), target, order)


ALL = (truncate_filter, fit_hankel, circle)


def leading(w: Tensor, rows: int, count: int) -> Tensor:
    """The singular vectors (D, rows, count) of the largest singular values of H (rows, rows), for w (D, L-1)."""
    count = min(count, rows)
    generator = torch.Generator().manual_seed(0)
    columns = min(rows, count + EXTRA_VECTORS)
    q = torch.randn(rows, columns, generator=generator, dtype=w.dtype).expand(len(w), -1, -1)
    for _ in range(ITERATIONS):
        q, _ = qr(_apply_hankel(w, q))
    values, vectors = eigh(q.mT @ _apply_hankel(w, q))  # H is symmetric
    index = values.abs().argsort(dim=-1, descending=True, stable=True)[:, None, :count]
    return q @ vectors.gather(2, index.expand(-1, vectors.shape[1], -1))


def largest(poles: Tensor, target: Target, order: int) -> tuple[Tensor, Tensor]:
    """Rates and weights (D, N) of the `order` exponentials with the largest norm, for poles (D, M).

    Of a conjugate pair only the pole in the upper half plane is used. Where there are fewer than `order`, real decays
    are added.
    """
    logs = torch.log(torch.where(poles == 0, 1e-9, poles))
    rates = torch.complex(logs.real.clamp(-FASTEST, -target.slowest), logs.imag)
    upper = rates.imag >= 0
    size = fit_weights(rates, target, upper).abs() * norms(waves(rates, target))
    index = torch.where(upper, size, -1.0).argsort(dim=1, descending=True, stable=True)[:, :order]
    rates = rates.gather(1, index)
    rates = torch.complex(rates.real, rates.imag.abs())
    missing = rates.new_full((len(rates), order - rates.shape[1]), -1 / target.length)
    rates = torch.cat([rates, missing], 1)
    return rates, fit_weights(rates, target)


def _apply_hankel(w: Tensor, q: Tensor) -> Tensor:
    """H q (D, rows, p) for w (D, L-1) and q (D, rows, p), by the FFT."""
    rows, size = q.shape[1], w.shape[1] + q.shape[1]
    spectrum = torch.fft.rfft(w, size)[:, :, None] * torch.fft.rfft(q, size, 1).conj()
    return torch.fft.irfft(spectrum, size, 1)[:, :rows]

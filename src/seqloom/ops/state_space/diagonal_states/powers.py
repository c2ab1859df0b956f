"""Powers of e^Δλ, and the kernel that they make, without D·T·N numbers in memory.

    λ̄^{aM+b} = λ̄^{aM} λ̄^b,   K_{aM+b} = 2 Re Σ_n (w_n λ̄_n^{aM}) λ̄_n^b      M near √T: one matrix product per channel

Angles l · Im Δλ are reduced modulo 2π in float64, so that the rounding error of high powers stays small.
"""

import math

import torch
from torch import Tensor

TURN = 2 * math.pi


def times(rates: Tensor, count: Tensor | int) -> Tensor:
    """count · Δλ with its imaginary part reduced to -π … π, which does not change its exponential."""
    angle = rates.imag.double() * count
    angle = angle - TURN * torch.round(angle.detach() / TURN)
    return torch.complex(rates.real * count, angle.to(rates.real.dtype))


def powers(rates: Tensor, count: int, every: int = 1) -> Tensor:
    """λ̄^0, λ̄^every, …, `count` of them, along a last axis: (…, N) → (…, N, count)."""
    return torch.exp(times(rates, every)[..., None] * torch.arange(count, device=rates.device))


def up_to(rates: Tensor, last: int) -> Tensor:
    """λ̄^0 … λ̄^last along a last axis."""
    return powers(rates, last + 1)


def kernel(rates: Tensor, weights: Tensor, T: int) -> Tensor:
    """K (T, D) from Δλ (D, N) or (N,) and w (D, N)."""
    M = max(1, math.isqrt(T))
    at_multiples = weights[..., None] * powers(rates, -(-T // M), M)
    return double_real_product(at_multiples.mT, powers(rates, M)).flatten(1)[:, :T].T


def double_real_product(left: Tensor, right: Tensor) -> Tensor:
    """2 Re of the product of complex matrices (D, m, N) and (D, N, n) or (N, n), as one real product of 2N terms."""
    return facing(left) @ (2 * apart(right))


def facing(left: Tensor) -> Tensor:
    """(…, N) → (…, 2N): real parts, then negated imaginary parts, for a product with the result of `apart`."""
    return torch.cat([left.real, -left.imag], -1)


def apart(right: Tensor) -> Tensor:
    """(…, N, n) → (…, 2N, n): real parts, then imaginary parts."""
    return torch.cat([right.real, right.imag], -2)

"""From a continuous system x' = A x + B u to one that steps: x_t = Ā x_{t-1} + B̄ u_t, by a step Δ.

    bilinear   Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A)      B̄ = (I - Δ/2 A)^{-1} Δ B        Tustin: the trapezium rule
    zoh        Ā = e^{ΔA}                            B̄ = ∫_0^Δ e^{sA} ds B           exact where u is held for a step
    euler      Ā = I + Δ A                           B̄ = Δ B                         stable for small Δ alone

For zoh both are parts of one exponential, exp(Δ [A B; 0 0]) = [Ā B̄; 0 I], which needs no inverse of A. For a diagonal
A = Λ all is elementwise, and B̄ is B times a factor: (e^{ΔΛ} - 1) / Λ for zoh, stable at and near Λ = 0.

Source: Tustin, 1947; Gu et al., arXiv:2110.13985, appendix A; seed 004, Eq. 25-26, whose second inverts ΔA. Mamba's
code takes Ā from zoh and B̄ from euler.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

Method: TypeAlias = Literal["bilinear", "zoh", "euler"]
SMALL = 1.0
"""|z| below which the derivative of (e^z - 1) / z is summed as a series"""
TERMS = 20
NOTHING = 1e-34
"""|z|² below which (e^z - 1) / z is 1, in float64 too"""


def bilinear(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """Ā and B̄, in the shapes of A (…, N, N) and B (…, N) or (…, N, M), for steps (…); leading axes broadcast.

    B is a vector if it has one axis less than A. Differentiable in every argument. Where I - Δ/2 A is singular the
    result is not finite. All three functions raise ValueError where the axes of B do not fit.
    """
    turned, wide, vector = _scaled(A, B, step)
    eye, half = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), turned / 2
    solved, _ = torch.linalg.solve_ex(eye - half, torch.cat([eye + half, wide], -1))
    return _parted(solved, A.shape[-1], vector)


def zoh(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `bilinear`; A may be singular. Computed in float64, since the derivative sums terms that cancel."""
    turned, wide, vector = _scaled(A, B, step)
    upper = torch.cat([turned, wide], -1).double()
    lower = upper.new_zeros(*upper.shape[:-2], wide.shape[-1], upper.shape[-1])
    whole = torch.linalg.matrix_exp(torch.cat([upper, lower], -2))
    return _parted(whole[..., : A.shape[-1], :].to(A.dtype), A.shape[-1], vector)


def euler(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `bilinear`."""
    turned, wide, vector = _scaled(A, B, step)
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return eye + turned, wide[..., 0] if vector else wide


def diagonal_bilinear(eigenvalues: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """Λ̄ and the factor of B, elementwise, for eigenvalues (…, N), complex or real, and real steps.

    Steps broadcast with the eigenvalues: (D, 1) for a step per channel, (N,) for a step per state.
    """
    half = eigenvalues * (step / 2)
    inverse = torch.reciprocal(1 - half)
    return (1 + half) * inverse, step * inverse


def diagonal_zoh(eigenvalues: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `diagonal_bilinear`."""
    z = eigenvalues * step
    return torch.exp(z), step * growth(z)


def diagonal_euler(eigenvalues: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `diagonal_bilinear`."""
    z = eigenvalues * step
    return 1 + z, step * torch.ones_like(z)


DENSE: dict[str, Callable[[Tensor, Tensor, Tensor | float], tuple[Tensor, Tensor]]] = {
    "bilinear": bilinear,
    "zoh": zoh,
    "euler": euler,
}
DIAGONAL: dict[str, Callable[[Tensor, Tensor | float], tuple[Tensor, Tensor]]] = {
    "bilinear": diagonal_bilinear,
    "zoh": diagonal_zoh,
    "euler": diagonal_euler,
}


def growth(z: Tensor) -> Tensor:
    """(e^z - 1) / z elementwise, 1 at 0; it and its first and second derivatives are accurate near 0."""
    grown: Tensor = _Growth.apply(z)  # type: ignore[no-untyped-call]  # torch does not type apply
    return grown


class _Growth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return _growth(z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        small = z.abs() < SMALL
        inside, outside = torch.where(small, z, 0.0), torch.where(small, 1.0, z)
        slope = torch.where(small, _slope(inside), (torch.exp(outside) - _growth(outside)) / outside)
        return grad * slope.conj()


def _growth(z: Tensor) -> Tensor:
    if not z.is_complex():
        none = z == 0
        return torch.where(none, 1.0, torch.expm1(z) / torch.where(none, 1.0, z))
    a, b = z.real, z.imag
    size = a * a + b * b
    none = size < NOTHING
    half = torch.sin(b / 2)
    real, imag = torch.expm1(a) * torch.cos(b) - 2 * (half * half), torch.exp(a) * torch.sin(b)  # of e^z - 1
    size = torch.where(none, 1.0, size)
    real, imag = (real * a + imag * b) / size, (imag * a - real * b) / size
    return torch.complex(torch.where(none, 1.0, real), imag)


def _slope(z: Tensor) -> Tensor:
    """The derivative of (e^z - 1) / z, Σ_{n≥0} z^n (n+1) / (n+2)!, for |z| ≤ 1."""
    total, factor = torch.zeros_like(z), 1.0
    factors = [factor := factor / (n + 2) for n in range(TERMS)]  # 1 / (n+2)!
    for n in reversed(range(TERMS)):
        total = total * z + (n + 1) * factors[n]
    return total


def _scaled(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor, bool]:
    """Δ A and Δ B (…, N, M) with all leading axes, and whether B is a vector."""
    N, vector = A.shape[-1], B.ndim == A.ndim - 1
    if A.ndim < 2 or A.shape[-2] != N or B.ndim not in (A.ndim, A.ndim - 1) or B.shape[-1 if vector else -2] != N:
        raise ValueError(f"B must be (…, {N}) or (…, {N}, M) for A {tuple(A.shape)}, not {tuple(B.shape)}")
    steps = torch.as_tensor(step, dtype=A.dtype, device=A.device)[..., None, None]
    wide = (B[..., None] if vector else B) * steps
    turned = A * steps
    leading = torch.broadcast_shapes(turned.shape[:-2], wide.shape[:-2])
    return turned.expand(*leading, *turned.shape[-2:]), wide.expand(*leading, *wide.shape[-2:]), vector


def _parted(both: Tensor, N: int, vector: bool) -> tuple[Tensor, Tensor]:
    return both[..., :N], both[..., N] if vector else both[..., N:]

"""Discretizes a system: from x' = A x + B u to x_t = Ā x_{t-1} + B̄ u_t, where a token takes the time Δ.

    bilinear   Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A)      B̄ = (I - Δ/2 A)^{-1} Δ B        Tustin: the trapezoidal rule
    zoh        Ā = e^{ΔA}                            B̄ = ∫_0^Δ e^{sA} ds B           exact if u is constant during Δ
    euler      Ā = I + Δ A                           B̄ = Δ B                         stable only for small Δ

For zoh both are parts of one exponential, exp(Δ [A B; 0 0]) = [Ā B̄; 0 I], which needs no inverse of A. For a diagonal
A = Λ all is elementwise, and B̄ is B times a factor: (e^{ΔΛ} - 1) / Λ for zoh, stable at and near Λ = 0.

Source: Tustin, 1947; Gu et al., arXiv:2110.13985, appendix A; seed 004, Eq. 25-26, whose second inverts ΔA. Mamba's
code takes Ā from zoh and B̄ from euler.
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from seqloom.core.graphs import is_transformed

Method: TypeAlias = Literal["bilinear", "zoh", "euler"]
SMALL = 1.0
"""|z| below which the derivative of (e^z - 1) / z is summed as a series"""
TERMS = 20
"""terms of that series"""
ZERO = 1e-34
"""|z|² below which (e^z - 1) / z is 1, even in float64"""


def bilinear(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """Ā and B̄, in the shapes of A (…, N, N) and B (…, N) or (…, N, M), for steps (…); leading axes broadcast.

    B is a vector if it has one axis less than A. Differentiable in every argument. Where I - Δ/2 A is singular the
    result is not finite. All three functions raise ValueError where the axes of B do not fit.
    """
    step_A, step_B, is_vector = _scale_matrices(A, B, step)
    eye, half = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), step_A / 2
    solution, _ = torch.linalg.solve_ex(eye - half, torch.cat([eye + half, step_B], -1))
    return _split(solution, A.shape[-1], is_vector)


def zoh(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `bilinear`; A may be singular. Computed in float64, since the derivative sums terms that cancel."""
    step_A, step_B, is_vector = _scale_matrices(A, B, step)
    upper = torch.cat([step_A, step_B], -1).double()
    lower = upper.new_zeros(*upper.shape[:-2], step_B.shape[-1], upper.shape[-1])
    exponential: Tensor = _Exponential.apply(torch.cat([upper, lower], -2))  # type: ignore[no-untyped-call]
    return _split(exponential[..., : A.shape[-1], :].to(A.dtype), A.shape[-1], is_vector)


def euler(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor]:
    """See `bilinear`."""
    step_A, step_B, is_vector = _scale_matrices(A, B, step)
    eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
    return eye + step_A, step_B[..., 0] if is_vector else step_B


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
    if is_transformed():
        is_small = z.abs() < SMALL
        return torch.where(is_small, _sum(torch.where(is_small, z, 0.0)), _growth(torch.where(is_small, 1.0, z)))
    quotient: Tensor = _Growth.apply(z)  # type: ignore[no-untyped-call]  # torch does not type apply
    return quotient


class _Exponential(torch.autograd.Function):
    """e^A for matrices, whose gradients are accurate whatever their size.

    The gradient for G is the upper right block of exp([A* G; 0 A*]). It is linear in G, but the exponential loses a
    digit of A for each digit of G: torch's own is off by 1e-3 for a G of 1e12. So G is divided by its largest entry.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(A: Tensor) -> Tensor:
        return torch.linalg.matrix_exp(A)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (A,) = ctx.saved_tensors
        N, size = A.shape[-1], grad.detach().abs().amax((-2, -1), keepdim=True)
        size = torch.where(size > 0, size, 1.0)
        upper = torch.cat([A.mH, grad / size], -1)
        lower = torch.cat([torch.zeros_like(A), A.mH], -1)
        return size * torch.linalg.matrix_exp(torch.cat([upper, lower], -2))[..., :N, N:]


class _Growth(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        ctx.save_for_backward(z)
        return _growth(z)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (z,) = ctx.saved_tensors
        is_small = z.abs() < SMALL
        small, large = torch.where(is_small, z, 0.0), torch.where(is_small, 1.0, z)
        derivative = torch.where(is_small, _series(small), (torch.exp(large) - _growth(large)) / large)
        return grad * derivative.conj()


def _growth(z: Tensor) -> Tensor:
    """(e^z - 1) / z, without cancellation in e^z - 1."""
    if not z.is_complex():
        is_zero = z == 0
        return torch.where(is_zero, 1.0, torch.expm1(z) / torch.where(is_zero, 1.0, z))
    a, b = z.real, z.imag
    size = a * a + b * b
    is_zero = size < ZERO
    sine = torch.sin(b / 2)
    real, imag = torch.expm1(a) * torch.cos(b) - 2 * (sine * sine), torch.exp(a) * torch.sin(b)  # of e^z - 1
    size = torch.where(is_zero, 1.0, size)
    real, imag = (real * a + imag * b) / size, (imag * a - real * b) / size
    return torch.complex(torch.where(is_zero, 1.0, real), imag)


def _sum(z: Tensor) -> Tensor:
    """(e^z - 1) / z as a series, Σ_{n≥0} z^n / (n+1)!, for |z| ≤ 1."""
    factor = 1.0
    factors = [factor := factor / (n + 1) for n in range(TERMS)]  # 1 / (n+1)!
    total = torch.zeros_like(z)
    for each in reversed(factors):
        total = total * z + each
    return total


def _series(z: Tensor) -> Tensor:
    """The derivative of (e^z - 1) / z, Σ_{n≥0} z^n (n+1) / (n+2)!, for |z| ≤ 1."""
    inverse = 1.0
    inverses = [inverse := inverse / (n + 2) for n in range(TERMS)]  # 1 / (n+2)!
    total = torch.zeros_like(z)
    for n in reversed(range(TERMS)):  # Horner's scheme
        total = total * z + (n + 1) * inverses[n]
    return total


def _scale_matrices(A: Tensor, B: Tensor, step: Tensor | float) -> tuple[Tensor, Tensor, bool]:
    """Δ A (…, N, N) and Δ B (…, N, M), expanded to the same leading axes, and whether B is a vector, for which M is 1.

    ValueError where the axes of B do not fit.
    """
    N, is_vector = A.shape[-1], B.ndim == A.ndim - 1
    if A.ndim < 2 or A.shape[-2] != N or B.ndim not in (A.ndim, A.ndim - 1) or B.shape[-1 if is_vector else -2] != N:
        raise ValueError(f"B must be (…, {N}) or (…, {N}, M) for A {tuple(A.shape)}, not {tuple(B.shape)}")
    steps = torch.as_tensor(step, dtype=A.dtype, device=A.device)[..., None, None]
    step_B = (B[..., None] if is_vector else B) * steps
    step_A = A * steps
    leading = torch.broadcast_shapes(step_A.shape[:-2], step_B.shape[:-2])
    return step_A.expand(*leading, *step_A.shape[-2:]), step_B.expand(*leading, *step_B.shape[-2:]), is_vector


def _split(matrix: Tensor, N: int, is_vector: bool) -> tuple[Tensor, Tensor]:
    """Ā, the first N columns of the matrix, and B̄, the other ones, as a vector if B is one."""
    return matrix[..., :N], matrix[..., N] if is_vector else matrix[..., N:]

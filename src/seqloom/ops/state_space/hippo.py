"""The matrices of HiPPO: systems x' = A x + B u whose state holds the best polynomial approximation of u's history.

    legs    Legendre, scaled: all of the past alike. A and B stand for x' = (A x + B u) / t, and are used without 1/t
            A_nk = -(2n+1)^½ (2k+1)^½ for n > k, -(n+1) for n = k, 0 for n < k;                      B_n = (2n+1)^½
    legt    Legendre, translated: the last unit of time alone. `scaling` orthonormal, or the Legendre memory unit's
            A_nk = -(2n+1)^½ (2k+1)^½ (1 for k ≤ n, (-1)^{n-k} for k > n);                           B_n = (2n+1)^½
            A_nk = -(2n+1) ((-1)^{n-k} for k ≤ n, 1 for k > n);                                   B_n = (2n+1) (-1)^n
    lagt    Laguerre, translated: the past weighted by e^{-age}. A_nk = -1 for n ≥ k, 0 for n < k;            B_n = 1

n and k count from 0. A and B are the signs of x' = A x + B u: HiPPO's paper prints -A.

    normal  A_legs = V (Λ - P P*) V*: normal plus rank 1, in pairs of conjugates, of which one half is given

Source: Gu et al., HiPPO, arXiv:2008.07669, Theorems 1 and 2 and appendices B-D (for LagT α = 0, β = 1 and for LegT
θ = 1; the authors' later code halves LegT and takes β = 0 for LagT, whose diagonal then is -½); Gu et al., S4,
arXiv:2111.00396, Theorem 1 and appendix C. Seed 004 prints A (Eq. 32) and leaves out B.
"""

from typing import Literal, TypeAlias

import torch
from jaxtyping import Complex, Float
from torch import Tensor

Matrix: TypeAlias = Float[Tensor, "N N"]
Vector: TypeAlias = Float[Tensor, " N"]
Half: TypeAlias = Complex[Tensor, " H"]
Measure: TypeAlias = Literal["legs", "legt", "lagt"]


def legs(N: int) -> tuple[Matrix, Vector]:
    """A (N, N) and B (N,) of the scaled Legendre measure, in float64."""
    _, B = _orders(N)
    return -torch.outer(B, B).tril(-1) - torch.arange(1, N + 1, dtype=torch.float64).diag(), B


def legt(N: int, scaling: Literal["orthonormal", "lmu"] = "orthonormal") -> tuple[Matrix, Vector]:
    """A (N, N) and B (N,) of the Legendre measure on the last unit of time, in float64."""
    n, root = _orders(N)
    sign = (-1.0) ** n
    signs, ones = torch.outer(sign, sign), torch.ones(N, N, dtype=torch.float64)
    if scaling == "lmu":
        return -(root**2)[:, None] * (signs.tril() + ones.triu(1)), root**2 * sign
    return -torch.outer(root, root) * (ones.tril() + signs.triu(1)), root


def lagt(N: int) -> tuple[Matrix, Vector]:
    """A (N, N) and B (N,) of the Laguerre measure, in float64."""
    return -torch.ones(N, N, dtype=torch.float64).tril(), torch.ones(N, dtype=torch.float64)


MEASURES = {"legs": legs, "legt": legt, "lagt": lagt}


def normal(N: int) -> tuple[Half, Complex[Tensor, "N H"], Half, Half]:
    """Λ (N/2,), V (N, N/2), P (N/2,) and B (N/2,) in complex128, with A_legs = V (Λ - P P*) V* over both halves.

    The other half is the conjugate: with V' = [V, V̄], which is unitary, and Λ' = [Λ, Λ̄], P' = [P, P̄], B' = [B, B̄],
    A_legs = V' (Λ' - P' P'*) V'* and B_legs = V' B'. Λ is -½ + i ω with ω > 0 ascending; each column of V is turned so
    that P is real and above 0. Then P_legs = V' P' is (n + ½)^½, so B = √2 P. Raises ValueError for an odd N.
    """
    if N < 2 or N % 2:
        raise ValueError(f"conjugate pairs need an even number of states, 2 or more, not {N}")
    A, B = legs(N)
    P = (torch.arange(N, dtype=torch.float64) + 0.5).sqrt()
    normal_part = A + torch.outer(P, P)
    skew = (normal_part - normal_part.mT) / 2  # its skew-symmetric part; the symmetric part is -½ I
    omega, V = torch.linalg.eigh(-1j * skew)
    omega, V = omega[N // 2 :], V[:, N // 2 :]
    phase = torch.sgn(V.mH @ P.to(V))
    V = V * phase
    P = (V.mH @ P.to(V)).real.to(V)
    return torch.complex(torch.full_like(omega, -0.5), omega), V, P, V.mH @ B.to(V)


def _orders(N: int) -> tuple[Tensor, Tensor]:
    """n and (2n + 1)^½, for n from 0 to N - 1."""
    n = torch.arange(N, dtype=torch.float64)
    return n, (2 * n + 1).sqrt()

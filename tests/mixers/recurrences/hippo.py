"""The matrices of HiPPO: c' = A c + B f keeps the coefficients c of the best polynomial of the past of f.

    LegS:  c'(t) = A c / t + B f / t,  past weighed evenly on [0, t]                             Theorem 2
           A_nk = -(2n+1)^{1/2} (2k+1)^{1/2} where n > k,  -(n+1) where n = k,  0 where n < k;   B_n = (2n+1)^{1/2}
    LegT:  past weighed evenly on [t-θ, t], polynomials scaled as Voelker's (LMU)                Theorem 1
           θ A_nk = -(-1)^{n-k} (2n+1) where n ≥ k,  -(2n+1) where n ≤ k;   θ B_n = (2n+1) (-1)^n
           of length 1:  θ A_nk = -(2n+1)^{1/2} (2k+1)^{1/2} · (1 where n ≥ k, (-1)^{n-k} where n ≤ k)
           θ B_n = (2n+1)^{1/2}                                                                  appendix D.1
    LagT:  past weighed by e^{-(t-x)}                                                            Theorem 1
           A_nk = -1 where n ≥ k,  0 where n < k;   B_n = 1
           tilted by β:  A_nn = -(1+β)/2 and B_n = β^{1/2}, with α = 0                           appendix D.2
    The paper writes c' = -A c + B f; A is its negative here. S4 takes A of LegS without the 1/t, and of LagT the tilted
    one with β = 0 and B_n = 1. Each is a normal matrix less P P* (S4's appendix):
    LegS:  P_n = (n+1/2)^{1/2},  LagT with β = 0:  P_n = 2^{-1/2},  LegT of length 1:  two columns, for even and odd n.

n and k count from 0.

Source: Gu et al., HiPPO, arXiv:2008.07669; Gu, Goel, Ré, arXiv:2111.00396, Eq. 2 and appendix C.
"""

import numpy as np

from tests.mixers.recurrences.arithmetic import Array


def legs(N: int) -> tuple[Array, Array]:
    """A (N, N) and B (N,)."""
    A, B = np.zeros((N, N)), np.zeros(N)
    for n in range(N):
        B[n] = (2 * n + 1) ** 0.5
        for k in range(N):
            if n > k:
                A[n, k] = -((2 * n + 1) ** 0.5) * (2 * k + 1) ** 0.5
            elif n == k:
                A[n, k] = -(n + 1)
    return A, B


def legt_of_theorem_1(N: int, theta: float = 1.0) -> tuple[Array, Array]:
    A, B = np.zeros((N, N)), np.zeros(N)
    for n in range(N):
        B[n] = (2 * n + 1) * (-1) ** n / theta
        for k in range(N):
            A[n, k] = -(2 * n + 1) * ((-1.0) ** (n - k) if n >= k else 1.0) / theta
    return A, B


def legt(N: int, theta: float = 1.0) -> tuple[Array, Array]:
    """Polynomials of length 1, as LSSL and S4 take them."""
    A, B = np.zeros((N, N)), np.zeros(N)
    for n in range(N):
        B[n] = (2 * n + 1) ** 0.5 / theta
        for k in range(N):
            sign = 1.0 if n >= k else (-1.0) ** (n - k)
            A[n, k] = -((2 * n + 1) ** 0.5) * (2 * k + 1) ** 0.5 * sign / theta
    return A, B


def lagt(N: int, beta: float = 1.0) -> tuple[Array, Array]:
    A, B = np.zeros((N, N)), np.zeros(N)
    for n in range(N):
        B[n] = beta**0.5
        for k in range(N):
            if n > k:
                A[n, k] = -1.0
            elif n == k:
                A[n, k] = -(1 + beta) / 2
    return A, B


def lagt_of_s4(N: int) -> tuple[Array, Array]:
    return lagt(N, beta=0.0)[0], np.ones(N)


def low_rank(measure: str, N: int) -> Array:
    """P (N, rank)."""
    match measure:
        case "legs":
            return np.array([[(n + 0.5) ** 0.5] for n in range(N)])
        case "lagt":
            return np.array([[0.5**0.5] for _ in range(N)])
    return np.array([[(2 * n + 1) ** 0.5 * (n % 2 == 0), (2 * n + 1) ** 0.5 * (n % 2 == 1)] for n in range(N)])

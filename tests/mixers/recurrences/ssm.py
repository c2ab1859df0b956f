"""A linear state-space model, of one channel or of all, and the rules that turn it from time to steps.

    x'(t) = A x(t) + B u(t),  y(t) = C x(t) + D u(t)
    x_0 = 0,  x_t = Ā x_{t-1} + B̄ u_t,  y_t = C x_t + D u_t
    generalised bilinear:  Ā = (I - αΔA)^{-1} (I + (1-α)ΔA),  B̄ = (I - αΔA)^{-1} ΔB          LSSL, section 2 and B.3
        Euler: α = 0;  bilinear (Tustin): α = 1/2;  backward Euler: α = 1
    zero-order hold:       Ā = e^{ΔA},  B̄ = ∫_0^Δ e^{sA} ds B, which is A^{-1} (e^{ΔA} - I) B where A has an inverse
    Mamba:                 Ā = e^{ΔA},  B̄ = ΔB                    as the authors' code; the paper's Eq. 4 is the above

With u_t the input at the step and not before it. Matrices may be complex; no library but for sums and products.

Source: Gu et al., LSSL, arXiv:2110.13985; Gu and Dao, Mamba, arXiv:2312.00752, Eq. 1-4.
"""

import math

import numpy as np

from tests.mixers.recurrences.arithmetic import Array, Weights


def solved(matrix: Array, right: Array) -> Array:
    """X (N, M) of matrix X = right, by Gauss's elimination with the largest pivot."""
    N = len(matrix)
    rows = np.concatenate([matrix, right], 1).astype(np.result_type(matrix, right, float))
    for n in range(N):
        pivot = n + int(np.abs(rows[n:, n]).argmax())
        rows[[n, pivot]] = rows[[pivot, n]]
        if rows[n, n] == 0:
            raise ZeroDivisionError("the matrix has no inverse")
        rows[n] = rows[n] / rows[n, n]
        for m in range(N):
            if m != n:
                rows[m] = rows[m] - rows[m, n] * rows[n]
    return rows[:, N:]


def exponential(matrix: Array) -> Array:
    """e^matrix: Taylor's series of the matrix divided by 2^s, squared s times."""
    size = float(np.abs(matrix).sum(1).max())
    s = max(0, math.ceil(math.log2(size)) + 3) if size > 0 else 0
    small, term = matrix / 2**s, np.eye(len(matrix), dtype=matrix.dtype)
    total = term.copy()
    for power in range(1, 25):
        term = term @ small / power
        total = total + term
    for _ in range(s):
        total = total @ total
    return total


def generalised_bilinear(A: Array, B: Array, delta: float, alpha: float) -> tuple[Array, Array]:
    """Ā (N, N) and B̄ (N,) of A (N, N) and B (N,)."""
    eye = np.eye(len(A))
    left = eye - alpha * delta * A
    return solved(left, eye + (1 - alpha) * delta * A), solved(left, delta * B[:, None])[:, 0]


def euler(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    return generalised_bilinear(A, B, delta, 0.0)


def bilinear(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    return generalised_bilinear(A, B, delta, 0.5)


def backward_euler(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    return generalised_bilinear(A, B, delta, 1.0)


def zero_order_hold(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    """For any A: the input joins the state as a number that stays, (x, u)' = (A x + B u, 0)."""
    N = len(A)
    joint = np.zeros((N + 1, N + 1), dtype=np.result_type(A, B, float))
    joint[:N, :N], joint[:N, N] = delta * A, delta * B
    stepped = exponential(joint)
    return stepped[:N, :N], stepped[:N, N]


def mamba_rule(A: Array, B: Array, delta: float) -> tuple[Array, Array]:
    return exponential(delta * A), delta * B


RULES = {
    "euler": euler,
    "bilinear": bilinear,
    "backward": backward_euler,
    "zoh": zero_order_hold,
    "mamba": mamba_rule,
}


def states(u: Array, A: Array, B: Array) -> Array:
    """x_t (T, N) of the numbers u (T,) under Ā and B̄."""
    x = np.zeros((len(u), len(A)), dtype=np.result_type(A, B, float))
    for t in range(len(u)):
        for n in range(len(A)):
            x[t, n] = B[n] * u[t]
            for k in range(len(A)):
                x[t, n] += A[n, k] * x[t - 1, k] if t else 0.0
    return x


def ssm(u: Array, A: Array, B: Array, C: Array, D: float) -> Array:
    """y (T,) of u (T,) under Ā (N, N), B̄ (N,), C (N,) and D; complex where a matrix is."""
    x = states(u, A, B)
    y = np.zeros(len(u), dtype=np.result_type(x, C))
    for t in range(len(u)):
        y[t] = D * u[t]
        for n in range(len(C)):
            y[t] += C[n] * x[t, n]
    return y


def system(x: Array, w: Weights, rule: str) -> Array:
    """One state for all channels: x (T, D) -> (T, D); w has A (N, N), B (N, D), C (D, N), D (D, D) and delta."""
    width, N = w["C"].shape
    y, state = np.zeros(x.shape), np.zeros(N)
    stepped = [RULES[rule](w["A"], w["B"][:, c], w["delta"]) for c in range(width)]
    for t in range(len(x)):
        state = np.array([sum(stepped[0][0][n, k] * state[k] for k in range(N)) for n in range(N)])
        for c in range(width):
            for n in range(N):
                state[n] += stepped[c][1][n] * x[t, c]
        for c in range(width):
            y[t, c] = sum(w["C"][c, n] * state[n] for n in range(N)) + sum(w["D"][c, k] * x[t, k] for k in range(width))
    return y

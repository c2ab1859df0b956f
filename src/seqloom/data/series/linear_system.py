"""A linear system that is observed with noise, and the Kalman filter: the best prediction of its next observation.

    s_{t+1} = A s_t + w_t,   y_t = c · s_t + v_t                  w ~ N(0, I), v ~ N(0, r), s_0 ~ N(0, Σ)

    s⁻, P⁻: mean and covariance of s_t given y_1 … y_{t-1}
    k = P⁻ c / (c · P⁻ c + r),   s = s⁻ + k (y_t - c · s⁻),   P = P⁻ - k (P⁻ c)ᵀ
    s⁻ = A s,   P⁻ = A P Aᵀ + I,   ŷ_{t+1} = c · s⁻

A turns planes, and shrinks them by a factor in [0.9, 0.99]; with an odd order the last axis only shrinks. Its basis and
c are random, and drawn once for each order. Σ is the covariance that A keeps. c is such that y has a variance of 1, of
which r is an eleventh.

Source: Kalman, A New Approach to Linear Filtering and Prediction Problems, 1960. Nothing differs.
"""

from typing import ClassVar, final

import numpy as np
from scipy.linalg import block_diag, solve_discrete_lyapunov
from typing_extensions import override

from seqloom.data.series.series import DrawnSeries, Floats, Rows, forecast_rows

LARGEST = 64
NOISE = 0.1
"""r, as a share of the variance of an observation without noise"""


@final
class LinearSystem(DrawnSeries):
    """One system of an order; each row is a path of its own."""

    title: ClassVar = "linear"
    columns = outputs = ("y",)

    def __init__(self, context: int, order: int = 4) -> None:
        super().__init__(context)
        if not 1 <= order <= LARGEST:
            raise ValueError(f"the order of a linear system is 1 … {LARGEST}, not {order:,}")
        self.order = order
        self.name = f"numbers:linear:{order}"
        self.identity = f"{self.name}, {context} times"
        self.A, self.c, self.covariance, self.r = _draw_system(order)

    @override
    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        T, N = self.context + 1, self.order
        state = generator.standard_normal((count, N)) @ np.linalg.cholesky(self.covariance).T
        drives = generator.standard_normal((T, count, N))
        noise = generator.standard_normal((T, count)) * self.r**0.5
        observed = np.empty((count, T))
        for time in range(T):
            observed[:, time] = state @ self.c + noise[time]
            state = state @ self.A.T + drives[time]
        return forecast_rows(observed[..., None], 0, self.filter_rows(observed[:, :-1])[..., None])

    def filter_rows(self, y: Floats) -> Floats:
        """The best prediction (B, T) of the observation after each of y (B, T)."""
        mean, P = np.zeros((len(y), self.order)), self.covariance
        predicted = np.empty_like(y)
        for time in range(y.shape[1]):
            k = P @ self.c / (self.c @ P @ self.c + self.r)
            mean = (mean + np.outer(y[:, time] - mean @ self.c, k)) @ self.A.T
            P = self.A @ (P - np.outer(k, P @ self.c)) @ self.A.T + np.eye(self.order)
            predicted[:, time] = mean @ self.c
        return predicted


def _draw_system(order: int) -> tuple[Floats, Floats, Floats, float]:
    """A (N, N), c (N,), the covariance of states that A keeps, and r."""
    draws = np.random.default_rng(order)
    radii, angles = draws.uniform(0.9, 0.99, (order + 1) // 2), draws.uniform(0.1, 1.0, order // 2)
    planes = [radius * _rotation(angle) for radius, angle in zip(radii, angles, strict=False)]
    planes += [np.array([[radii[-1]]])] * (order % 2)
    basis = np.linalg.qr(draws.standard_normal((order, order)))[0]
    A = basis @ block_diag(*planes) @ basis.T
    covariance = solve_discrete_lyapunov(A, np.eye(order))
    c = draws.standard_normal(order)
    c = c / (c @ covariance @ c * (1 + NOISE)) ** 0.5
    return A, c, covariance, float(c @ covariance @ c) * NOISE


def _rotation(angle: float) -> Floats:
    return np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])

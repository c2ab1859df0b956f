"""The Mackey-Glass equation, a chaotic series whose change depends on its value some time ago.

    dx/dt = 0.2 x(t-τ) / (1 + x(t-τ)^10) - 0.1 x(t)

Integrated by Runge and Kutta's method of order 4 with steps of 1/10, x(t-τ) between steps by the mean of its neighbors;
a value is kept for each whole time. A row begins from constant values drawn in [0.5, 1.5), after 300 times.

Source: Mackey and Glass, Science 197 (1977), with the constants that forecasts are usually tried on, τ = 17.
"""

from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from seqloom.data.series.series import DrawnSeries, Floats, Rows, forecast_rows

STEPS = 10
"""steps of the integration in one time"""
BEFORE = 300
"""times before a row begins"""
LONGEST = 1000


@final
class MackeyGlass(DrawnSeries):
    """Series with the delay `tau`, each from values of its own."""

    title: ClassVar = "mackey-glass"
    columns = outputs = ("x",)

    def __init__(self, context: int, tau: int = 17) -> None:
        super().__init__(context)
        if not 1 <= tau <= LONGEST:
            raise ValueError(f"the delay of mackey-glass is 1 … {LONGEST:,}, not {tau:,}")
        self.tau = tau
        self.name = f"numbers:mackey-glass:{tau}"
        self.identity = f"{self.name}, {context} times"

    @override
    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        first = generator.uniform(0.5, 1.5, count)
        values = integrate(first, self.tau, BEFORE + self.context + 1)
        return forecast_rows(values[:, BEFORE:, None])


def integrate(first: Floats, tau: int, times: int) -> Floats:
    """x (N, times) at whole times, of series that were constantly `first` (N,) until time 0."""
    delay = tau * STEPS
    x = np.empty((delay + times * STEPS, len(first)))
    x[: delay + 1] = first
    h = 1 / STEPS
    for now in range(delay, len(x) - 1):
        past, next_past = x[now - delay], x[now - delay + 1]
        middle = (past + next_past) / 2
        k1 = _slope(x[now], past)
        k2 = _slope(x[now] + h / 2 * k1, middle)
        k3 = _slope(x[now] + h / 2 * k2, middle)
        k4 = _slope(x[now] + h * k3, next_past)
        x[now + 1] = x[now] + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return x[delay::STEPS].T


def _slope(x: Floats, past: Floats) -> Floats:
    slope: Floats = 0.2 * past / (1 + past**10) - 0.1 * x
    return slope

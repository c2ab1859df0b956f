"""A sum of sines of random frequencies and phases, observed with noise.

x_t = √(2/N) Σ_n sin(2π f_n t + φ_n) + 0.1 ε_t          f_n in [1/64, 1/8) cycles a time, φ_n in [0, 1) turns
"""

from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from seqloom.data.series.series import DrawnSeries, Rows, forecast_rows

NOISE = 0.1
"""the standard deviation of the noise; that of the sines is 1"""
LOWEST, HIGHEST = 1 / 64, 1 / 8
MOST = 64


@final
class Sines(DrawnSeries):
    """`count` sines in each row, with frequencies of its own."""

    title: ClassVar = "sines"
    columns = outputs = ("x",)

    def __init__(self, context: int, count: int = 3) -> None:
        super().__init__(context)
        if not 1 <= count <= MOST:
            raise ValueError(f"a sum has 1 … {MOST} sines, not {count}")
        self.count = count
        self.name = f"numbers:sines:{count}"
        self.identity = f"{self.name}, {context} times"

    @override
    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        time = np.arange(self.context + 1)
        frequency = generator.uniform(LOWEST, HIGHEST, (count, self.count, 1))
        phase = generator.random((count, self.count, 1))
        sines = np.sin(2 * np.pi * (frequency * time + phase)).sum(1) * (2 / self.count) ** 0.5
        return forecast_rows((sines + NOISE * generator.standard_normal(sines.shape))[..., None])

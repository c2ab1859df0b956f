"""The adding problem: a row of numbers of which two are marked; at the end their sum is asked for.

    u_t uniform in [0, 1),   m_i = m_j = 1 for one i in the first half and one j in the second, else 0
    values_t = (u_t, m_t),   target at the last time: u_i + u_j

Without reading back, the best answer is 1, whose mean squared error is 1/6.

Source: Hochreiter and Schmidhuber, Long Short-Term Memory, 1997, section 5.4. What differs: the first marked number is
in the first half of the row and the second in the other, as in Arjovsky et al., arXiv:1511.06464; numbers are not
negative there and here.
"""

from typing import ClassVar, final

import numpy as np
from typing_extensions import override

from seqloom.data.series.series import DrawnSeries, Rows, Scale


@final
class Adding(DrawnSeries):
    """Two marked numbers, and their sum. `length` is the number of times, by default those of the context."""

    title: ClassVar = "adding"
    columns = ("number", "marked")
    outputs = ("sum",)

    def __init__(self, context: int, length: int | None = None) -> None:
        super().__init__(context if length is None else length)
        if not 2 <= self.context <= context:
            raise ValueError(f"the adding problem has 2 … {context:,} (the context) times a row, not {self.context:,}")
        self.name = self.identity = f"numbers:adding:{self.context}"

    @property
    @override
    def scale(self) -> Scale:
        return Scale((0.5, 0.0), (12**-0.5, 1.0))

    @property
    @override
    def output_scale(self) -> Scale:
        return Scale((1.0,), (6**-0.5,))

    @override
    def draw(self, generator: np.random.Generator, count: int) -> Rows:
        T, half = self.context, self.context // 2
        row = np.arange(count)
        numbers = generator.random((count, T))
        first, second = generator.integers(0, half, count), generator.integers(half, T, count)
        marks = np.zeros((count, T))
        marks[row, first] = marks[row, second] = 1.0
        targets = np.zeros((count, T, 1))
        targets[:, -1, 0] = numbers[row, first] + numbers[row, second]
        scored = np.zeros((count, T), bool)
        scored[:, -1] = True
        return Rows(np.stack([numbers, marks], 2), targets, scored, targets)

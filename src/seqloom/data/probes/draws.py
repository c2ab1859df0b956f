"""Random numbers for the samples of a batch; those of a sample depend on (key, sample) and not on its batch.

    bits(s, c, n) = number n of block s of Philox's stream under sha256(key, c)            c: number of earlier calls

Only Philox's raw bits are used, which numpy promises not to change; the distributions are computed from them here.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011. Nothing differs.
"""

import hashlib
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

_BLOCK = 4
"""numbers that Philox makes per value of its counter"""


@final
class Draws:
    """Random numbers for the samples `first` … `first + rows - 1`; every call draws new ones."""

    def __init__(self, key: str, first: int, rows: int) -> None:
        self.rows = rows
        self._key, self._first, self._calls = key, first, 0

    def bits(self, count: int) -> npt.NDArray[np.uint64]:
        """(rows, count) uniform numbers of 64 bits."""
        digest = hashlib.sha256(f"seqloom probe {self._calls} {self._key}".encode()).digest()
        self._calls += 1
        blocks = -(-count // _BLOCK)
        stream = np.random.Philox(key=int.from_bytes(digest[:16], "little"), counter=self._first * blocks)
        return stream.random_raw(self.rows * blocks * _BLOCK).reshape(self.rows, blocks * _BLOCK)[:, :count]

    def below(self, limit: int, count: int) -> Ints:
        """(rows, count) numbers in [0, limit), all equally likely (to within limit / 2^64)."""
        return (self.bits(count) % np.uint64(limit)).astype(np.int64)

    def draw_distinct(self, limit: int, count: int) -> Ints:
        """(rows, count) numbers in [0, limit), all different in a row, every choice and order equally likely."""
        assert count <= limit, f"there are no {count} different numbers below {limit}"
        return np.argsort(self.bits(limit), axis=1, kind="stable")[:, :count].astype(np.int64)

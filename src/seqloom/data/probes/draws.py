"""Random numbers of a batch that need only (key, sample): those of sample s are the same in any batch.

    bits(s, c, n) = number n of block s of Philox's stream under sha256(key, c)            c: how many draws came before

Only Philox's raw bits are used, which numpy promises never to change; whatever is drawn from them is written out here.

Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011. Nothing differs.
"""

import hashlib
from typing import TypeAlias, final

import numpy as np
import numpy.typing as npt

Ints: TypeAlias = npt.NDArray[np.int64]

_BLOCK = 4
"""numbers of one count of Philox"""


@final
class Draws:
    """The numbers of samples `first` … `first + rows - 1`; each call draws others, in the order of the calls."""

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

    def different(self, limit: int, count: int) -> Ints:
        """(rows, count) numbers in [0, limit), all different in a row, every choice and order equally likely."""
        assert count <= limit, f"there are no {count} different numbers below {limit}"
        return np.argsort(self.bits(limit), axis=1, kind="stable")[:, :count].astype(np.int64)

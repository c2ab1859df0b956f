"""Recorded episodes as arrays, and as one file with a checksum."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt

from seqloom.core.config import read
from seqloom.core.files import read_bytes
from seqloom.data import cache
from seqloom.data.episodes.environment import Environment

LARGEST = 4 << 30
"""the most bytes of a file"""
_MAGIC = b"SEQLOOME1\n"


@final
@dataclass(frozen=True, eq=False)
class Episodes:
    """The steps of complete episodes, one episode after the other."""

    states: npt.NDArray[np.float32]
    """(N, S), the state at the start of each step"""
    actions: npt.NDArray[Any]
    """(N,) int64 for discrete actions, (N, A) float32 in the environment's units for continuous ones"""
    rewards: npt.NDArray[np.float64]
    """(N,), the reward of each step"""
    starts: npt.NDArray[np.int64]
    """(E,), the index of the first step of each episode"""
    environment: Environment

    def __len__(self) -> int:
        """The number of episodes."""
        return len(self.starts)

    @property
    def steps(self) -> int:
        """The number of steps of all episodes."""
        return len(self.rewards)

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """(E,), the index after the last step of each episode."""
        return np.append(self.starts[1:], np.int64(self.steps))

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """(E,), the number of steps of each episode."""
        return self.ends - self.starts

    @property
    def returns(self) -> npt.NDArray[np.float64]:
        """(E,), the sum of the rewards of each episode."""
        return np.add.reduceat(self.rewards, self.starts)

    @cached_property
    def to_go(self) -> npt.NDArray[np.float64]:
        """(N,), the return-to-go: the sum of the rewards from each step to the end of its episode."""
        sums = np.cumsum(self.rewards)
        return np.repeat(sums[self.ends - 1], self.lengths) - sums + self.rewards

    @cached_property
    def times(self) -> npt.NDArray[np.int64]:
        """(N,), the number of each step in its episode, from 0."""
        return np.arange(self.steps) - np.repeat(self.starts, self.lengths)

    @property
    def identity(self) -> str:
        """The sha256 of all stored arrays."""
        return hashlib.sha256(self._bytes()).hexdigest()

    def select(self, episodes: npt.NDArray[np.bool_]) -> "Episodes":
        """The episodes that a mask (E,) selects, in their order."""
        steps = np.repeat(episodes, self.lengths)
        lengths = self.lengths[episodes]
        columns = (self.states[steps], self.actions[steps], self.rewards[steps])
        return Episodes(*columns, np.cumsum(lengths) - lengths, self.environment)

    def save(self, path: Path) -> None:
        """Writes the file completely or not at all."""
        data = self._bytes()
        cache.write(path, _MAGIC, hashlib.sha256(data).digest(), data)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Reads a file that `save` wrote. ValueError, in one line, where it is damaged or of another kind."""
        raw = read_bytes(path, LARGEST)
        start = len(_MAGIC) + 32
        data = raw[start:]
        if raw[: len(_MAGIC)] != _MAGIC or hashlib.sha256(data).digest() != raw[len(_MAGIC) : start]:
            raise ValueError(f"{path}: damaged: its content does not match its checksum")
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        environment: Environment = read(Environment, header["environment"])
        arrays = {}
        offset = 8 + size
        for name, dtype, shape in header["arrays"]:
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(data, dtype, count, offset).reshape(shape)
            offset += count * np.dtype(dtype).itemsize
        return cls(**arrays, environment=environment)

    def _bytes(self) -> bytes:
        """The file's contents: the length of a JSON header, the header, and the arrays in the order that it lists."""
        arrays_by_name = {
            "states": self.states,
            "actions": self.actions,
            "rewards": self.rewards,
            "starts": self.starts,
        }
        layout = [(name, array.dtype.newbyteorder("<").str, array.shape) for name, array in arrays_by_name.items()]
        header = json.dumps({"environment": self.environment.model_dump(mode="json"), "arrays": layout}).encode()
        parts = (
            np.ascontiguousarray(array, dtype)
            for array, (_, dtype, _) in zip(arrays_by_name.values(), layout, strict=True)
        )
        return b"".join((len(header).to_bytes(8, "little"), header, *(part.tobytes() for part in parts)))


def sides(episodes: Episodes, held_out: float, seed: int) -> tuple[Episodes, Episodes]:
    """The episodes for training and the held-out ones, a share `held_out` of all that is drawn by the seed.

    ValueError where there is only one episode.
    """
    count = len(episodes)
    if count < 2:
        raise ValueError("one episode cannot be divided into training and held-out ones: record more")
    keys = [hashlib.sha256(f"{seed} {number}".encode()).digest() for number in range(count)]
    number_held_out = min(max(round(held_out * count), 1), count - 1)
    chosen = np.zeros(count, bool)
    chosen[sorted(range(count), key=keys.__getitem__)[:number_held_out]] = True
    return episodes.select(~chosen), episodes.select(chosen)

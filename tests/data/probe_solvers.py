"""A program per probe that answers all of it from the tokens up to the question."""

import itertools
from collections.abc import Callable

import numpy as np

from seqloom.data.probes import Probe

Solver = Callable[[Probe, np.ndarray, int], int]
"""(probe, tokens up to and including the one that asks, how many questions there were before) → answer"""


def mqar(probe: Probe, read: np.ndarray, before: int) -> int:
    expected = dict(zip(read[0 : 2 * probe.pairs : 2].tolist(), read[1 : 2 * probe.pairs : 2].tolist(), strict=True))
    return expected[int(read[-1])]


def induction(probe: Probe, read: np.ndarray, before: int) -> int:
    (sign,) = np.flatnonzero(read[:-1] == read[-1])
    return int(read[sign + 1])


def copying(probe: Probe, read: np.ndarray, before: int) -> int:
    return int(read[before])


def selective_copying(probe: Probe, read: np.ndarray, before: int) -> int:
    return int(read[read >= 2][before])


def parity(probe: Probe, read: np.ndarray, before: int) -> int:
    return int(read.sum()) % 2


def permutations(probe: Probe, read: np.ndarray, before: int) -> int:
    listed = list(itertools.permutations(range(probe.things)))
    positions = list(range(probe.things))
    for token in read:
        positions = [listed[token][position] for position in positions]
    return listed.index(tuple(positions))


def compression(probe: Probe, read: np.ndarray, before: int) -> int:
    assert (read[probe.summary + 1 :] == read[-1]).all()  # what is asked says nothing
    return int(read[: probe.summary][before])


def needle(probe: Probe, read: np.ndarray, before: int) -> int:
    (key,) = np.flatnonzero(read[:-1] == read[-1])
    return int(read[key + 1])


def lookup(probe: Probe, read: np.ndarray, before: int) -> int:
    (key,) = np.flatnonzero(read[1:-1] == (read[0] if probe.before else read[-1]))
    return int(read[key + 2])


SOLVERS: dict[str, Solver] = {
    "mqar": mqar,
    "induction": induction,
    "copying": copying,
    "selective-copying": selective_copying,
    "parity": parity,
    "permutations": permutations,
    "swaps": permutations,
    "compression": compression,
    "needle": needle,
    "lookup": lookup,
}

"""The cells of `recurrence` by name, and how many gates each has."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from seqloom.ops.recurrence import elman, gru, gru_after, lstm

CELLS: dict[str, Callable[..., tuple[Tensor, Any]]] = {"elman": elman, "lstm": lstm, "gru": gru, "gru_after": gru_after}
GATES = {"elman": 1, "lstm": 4, "gru": 3, "gru_after": 3}
"""rows of a matrix for each unit, by cell"""

"""Mixers with one deliberate fault each, and the checks that must catch it.

Each is a sound mixer (`sound.py`, `sound_others.py`) with one method written wrongly, as a tired engineer could.
"""

import torch

from seqloom.core.state import State
from tests.contract import (  # noqa: F401  they note their faults
    broken_arguments,
    broken_keep,
    broken_module,
    broken_numbers,
    broken_reading,
    broken_state,
    broken_views,
)
from tests.contract.faults import FAULTS
from tests.contract.sound_others import Ahead

NEED_STREAMS = (
    "check_causal",
    "check_pieces",
    "check_step",
    "check_gradients_through_pieces",
    "check_keep_reading",
    "check_rows",
    "check_state_form",
    "check_state_is_kept",
    "check_reuse_writes_only_into_what_was_given_up",
    "check_state_size",
    "check_fork_and_trim",
    "check_cost",
    "check_derivatives",
    "check_small_numbers",
    "check_nothing_is_changed",
    "check_refusals",
    "check_shapes",
    "check_compiles",
    "check_empty",
    "check_dtypes",
    "check_given_state",
    "check_other_context",
)
"""checks of mixers that read from a state; for other mixers they require that the verbs raise an error"""


class PretendsNotToStream(Ahead):
    """Its traits say that it does not stream, but `start` works."""

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        return {"length": torch.zeros(batch, dtype=torch.long)}


FAULTS.extend((check, PretendsNotToStream, "DID NOT RAISE") for check in NEED_STREAMS)

"""What a state that does not fit its declaration is told: the sizes that an entry may have."""

from collections.abc import Mapping

import pytest
import torch

from seqloom.core.state import bound_state
from seqloom.core.state_spec import StateEntry, check, start, with_room

MEMORY: Mapping[str, StateEntry] = {
    "bounded": StateEntry((2, 1, 4), grows=True, axis=1, max_slots=5),
    "free": StateEntry((1, 3), grows=True),
    "fixed": StateEntry((6,), "wide"),
}
CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("name", "shape", "says"),
    [
        ("bounded", (3, 2, 4), r"is (3, 2, 1 to 5, 4)"),
        ("bounded", (3, 2, 6, 4), r"is (3, 2, 1 to 5, the same in all that grow, 4)"),
        ("free", (3, 2, 3, 1), r"is (3, 1 or more, the same in all that grow, 3)"),
        ("free", (3, 4, 3), r"is (3, 1 or more, the same in all that grow, 3)"),
        ("fixed", (3, 7), r"is (3, 6)"),
        ("fixed", (2, 6), r"is (3, 6)"),
        ("length", (3, 1), r"is (3,)"),
    ],
)
def test_the_sizes_that_an_entry_may_have(name: str, shape: tuple[int, ...], says: str) -> None:
    state = start(MEMORY, 3, 2, torch.float64, CPU)
    check(MEMORY, state, 3, torch.float64, CPU)
    state[name] = state[name].new_zeros(shape)
    with pytest.raises(ValueError, match=f"state entry '{name}'") as raised:
        check(MEMORY, state, 3, torch.float64, CPU)
    assert says in str(raised.value)


@pytest.mark.parametrize(
    ("tokens", "doubles", "slots"),
    [(0, False, (2, 2)), (1, False, (3, 3)), (4, False, (5, 6)), (1, True, (4, 4)), (9, True, (5, 11))],
)
def test_room_for_more_tokens(tokens: int, doubles: bool, slots: tuple[int, int]) -> None:
    """Two slots are full: exactly as many more, twice as many for a single token, never more than there may be."""
    state = start(MEMORY, 3, 2, torch.float64, CPU)
    state["free"] += 1
    state["length"] += 2
    state = bound_state(state)
    grown = with_room(MEMORY, state, tokens, doubles)
    assert (grown["bounded"].shape[2], grown["free"].shape[1]) == slots
    assert grown["free"].sum() == state["free"].sum(), "a new slot is not 0"
    assert (grown is state) == (slots == (2, 2))
    assert state["free"].shape[1] == 2
    assert (grown.bound, grown.even) == (2, True)

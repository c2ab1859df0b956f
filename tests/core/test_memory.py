"""What a state that does not fit its declaration is told: the sizes that an entry may have."""

from collections.abc import Mapping

import pytest
import torch

from seqloom.core.memory import Entry, check, start

MEMORY: Mapping[str, Entry] = {
    "bounded": Entry((2, 1, 4), grows=True, axis=1, max_slots=5),
    "free": Entry((1, 3), grows=True),
    "fixed": Entry((6,), "wide"),
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

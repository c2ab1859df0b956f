"""Each check passes the sound mixers and catches the broken ones."""

from collections.abc import Callable

import pytest

from seqloom.core.mixer import Mixer
from tests.contract import (
    test_arguments,
    test_causal,
    test_cost,
    test_given_state,
    test_gradients,
    test_graph,
    test_keep,
    test_numbers,
    test_reading,
    test_refusals,
    test_shapes,
    test_state,
    test_state_size,
    test_store,
    test_views,
)
from tests.contract.broken import FAULTS
from tests.contract.cases import Make
from tests.contract.sound import Average, made
from tests.contract.sound_others import Ahead, Cached, Short

ROOMS = (
    test_arguments,
    test_causal,
    test_cost,
    test_given_state,
    test_gradients,
    test_graph,
    test_keep,
    test_numbers,
    test_reading,
    test_refusals,
    test_shapes,
    test_state,
    test_state_size,
    test_store,
    test_views,
)
CHECKS: dict[str, Callable[[Make], None]] = {
    name: check for room in ROOMS for name, check in vars(room).items() if name.startswith("check_")
}
GRAPH = {name for name in vars(test_graph) if name.startswith("check_")}


def marks(check: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.graph] if check in GRAPH else []


CONTROLS = [
    pytest.param(check, kind, id=f"{kind.__name__}-{check}", marks=marks(check))
    for kind in (Average, Cached, Ahead, Short)
    for check in CHECKS
    if not (check in GRAPH and kind in (Cached, Short))  # Short asks its numbers how long it has read
]
BROKEN = [
    pytest.param(check, kind, says, id=f"{kind.__name__}-{check}", marks=marks(check)) for check, kind, says in FAULTS
]


@pytest.mark.parametrize(("check", "kind"), CONTROLS)
def test_a_sound_mixer_passes(check: str, kind: type[Mixer]) -> None:
    CHECKS[check](made(kind))


@pytest.mark.parametrize(("check", "kind", "says"), BROKEN)
def test_a_broken_mixer_is_caught(check: str, kind: type[Mixer], says: str) -> None:
    with pytest.raises((Exception, pytest.fail.Exception), match=says):
        CHECKS[check](made(kind))


def test_every_check_is_shown_to_catch_something() -> None:
    assert {check for check, _, _ in FAULTS} == set(CHECKS)

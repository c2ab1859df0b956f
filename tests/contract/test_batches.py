"""A token of one batch on a state of another, and states whose places share memory, raise one clear error."""

import pytest
import torch
from torch import Tensor

from seqloom.core.overlap import overlaps_itself, require_apart, share_memory
from seqloom.core.state import State, map_state, repeat
from tests.contract.cases import DIM, Make, close, copied, draw, every_mixer, fits, refused, streams, untouched

PAIRS = ((1, 3), (3, 1), (2, 3), (3, 2))
"""rows of the token, rows of the state"""


@every_mixer
@torch.no_grad()
def test_a_token_of_another_batch_than_the_state_is_an_error(make: Make) -> None:
    """After tokens of both batches were read, so that states of either are known as this mixer's."""
    if not streams(make):
        return
    mixer = make()
    for token, rows in PAIRS:
        state = mixer.step(draw(rows, DIM), mixer.start(rows))[1]
        mixer.step(draw(token, DIM), mixer.start(token))
        before = copied(state)
        for reuse in (False, True):
            refused(
                lambda token=token, state=state, reuse=reuse: mixer.step(draw(token, DIM), state, reuse=reuse),
                f"the state is of {rows} rows, the input of {token}",
            )
        untouched(state, before)


@every_mixer
@torch.no_grad()
def test_an_expanded_state_is_read_and_not_overwritten(make: Make) -> None:
    if not streams(make):
        return
    mixer, then = make(), draw(3, DIM, seed=2)
    one = mixer.step(draw(1, DIM), mixer.start(1))[1]
    expanded = map_state(lambda tensor: tensor.expand(3, *tensor.shape[1:]), one)
    refused(lambda: mixer.step(then, expanded, reuse=True), "at one address", "reuse=False")
    y, state = mixer.step(then, expanded)
    expected, after = mixer.step(then, repeat(one, 3))
    close(y, expected)
    if fits(mixer, 3) == 3:
        close(mixer.step(then, state, reuse=True)[0], mixer.step(then, after)[0])


@every_mixer
@torch.no_grad()
def test_entries_of_a_returned_state_do_not_share_memory(make: Make) -> None:
    if not streams(make):
        return
    mixer, x = make(), draw(3, 2, DIM)
    require_apart(mixer.start(3))
    require_apart(mixer.extend(x, mixer.start(3))[1])
    for reuse in (False, True):
        require_apart(mixer.step(x[:, 0], mixer.start(3), reuse=reuse)[1])


BASE = torch.zeros(4, 6)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (BASE, False),
        (BASE.T, False),
        (BASE[:, ::2], False),
        (BASE[1::2, 2:4], False),
        (BASE[:1].expand(4, 6), True),
        (BASE[:, :1].expand(4, 6), True),
        (BASE.flatten().unfold(0, 4, 2), True),
        (BASE.flatten().unfold(0, 4, 4), False),
        (BASE[:0].expand(0, 6), False),
    ],
)
def test_places_at_one_address(tensor: Tensor, expected: bool) -> None:
    assert overlaps_itself(tensor) == expected


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (BASE, BASE.view(2, 12), True),
        (BASE, BASE.clone(), False),
        (BASE[:, :3], BASE[:, 3:], False),
        (BASE[:, :4], BASE[:, 3:], True),
        (BASE[::2], BASE[1::2], False),
        (BASE[:2], BASE[2:], False),
        (BASE[:0], BASE, False),
        (BASE.view(torch.long), BASE, True),
    ],
)
def test_tensors_with_an_address_in_common(first: Tensor, second: Tensor, expected: bool) -> None:
    assert share_memory(first, second) == share_memory(second, first) == expected


def test_two_entries_of_one_tensor_cannot_be_overwritten() -> None:
    state = State({"k": BASE, "v": BASE.view(4, 6), "length": torch.zeros(4, dtype=torch.long)})
    refused(lambda: require_apart(state), "'k'", "'v'", "share memory")

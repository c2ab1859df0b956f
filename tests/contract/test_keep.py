"""A dropped token has no effect, and a row does not depend on other rows."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.contracts.numbers import rows
from seqloom.contracts.padding import NOISE, anywhere, gaps
from seqloom.core.mixer import Mixer
from seqloom.core.state import State, select
from tests.contract.cases import (
    DIM,
    Make,
    at_each_size,
    close,
    draw,
    every_example,
    every_mixer,
    fits,
    holds,
    same_state,
    streams,
    sums_lags,
)


def alone(mixer: Mixer, x: Tensor, keep: Tensor, row: int) -> Tensor:
    """The kept tokens of one row, (1, n, D)."""
    return x[row, keep[row]][None]


def at(state: State, row: int) -> State:
    return select(state, torch.tensor([row]))


def check_keep_forward(make: Make, wide: bool = False) -> None:
    """Promise 4 for the whole sequence: values, zeros, noise in dropped positions, gradients."""
    holds(gaps, make, wide)


def check_keep_reading(make: Make) -> None:
    """Promise 4 for pieces: outputs, `length` and the state are those of the kept tokens alone."""
    if not streams(make):
        return
    mixer = make()
    T = fits(mixer, 7)
    x, keep = draw(7, T, DIM), anywhere(T)
    with torch.no_grad():
        whole = mixer(x, keep)
        y, after = mixer.extend(x, mixer.start(7), keep)
        close(y, whole)
        assert bool((y[~keep] == 0).all()), "outputs at dropped positions are not 0"
        assert after["length"].dtype == torch.long
        assert torch.equal(after["length"], keep.sum(1)), "`length` does not count kept tokens"
        for noise in NOISE:
            again, state = mixer.extend(torch.where(keep[..., None], x, noise), mixer.start(7), keep)
            assert torch.equal(again, y), f"{noise} in dropped positions"
            for name in after:
                assert torch.equal(state[name], after[name]), f"{noise} in dropped tokens changes the state's {name!r}"
        for row in range(7):
            _, one = mixer.extend(alone(mixer, x, keep, row), mixer.start(1))
            _, dropped = mixer.extend(x[row : row + 1], mixer.start(1), keep[row : row + 1])
            same_state(mixer.trim(dropped), mixer.trim(one))
            if fits(mixer, T + 1) > T:
                continues_equally(mixer, at(after, row), one)
        for cut in range(T + 1):
            first, state = mixer.extend(x[:, :cut], mixer.start(7), keep[:, :cut])
            second, state = mixer.extend(x[:, cut:], state, keep[:, cut:])
            close(torch.cat([first, second], 1), whole)
            same_state(mixer.trim(state), mixer.trim(after))


def continues_equally(mixer: Mixer, actual: State, expected: State) -> None:
    """Fails unless the next tokens read from either state are the same."""
    then = draw(1, 3, DIM, seed=9)
    close(mixer.extend(then, actual)[0], mixer.extend(then, expected)[0])
    close(mixer.step(then[:, 0], actual)[0], mixer.step(then[:, 0], expected)[0])


def check_rows(make: Make, wide: bool = False) -> None:
    """Promise 5: each row as if it were alone, with any other rows, also after different numbers of tokens."""
    holds(rows, make, wide)
    if streams(make):
        at_each_size(ragged_rows_alone, make, (5, 9), (16, 21) if wide or sums_lags(make) else None)


def ragged_rows_alone(mixer: Mixer, T: int) -> None:
    T = T - 3
    x, keep = draw(7, T, DIM), anywhere(T)
    then, also = draw(7, 2, DIM, seed=4), draw(7, DIM, seed=5)
    with torch.no_grad():
        _, ragged = mixer.extend(x, mixer.start(7), keep)
        y, after = mixer.extend(then, ragged)
        token, stepped = mixer.step(also, after)
        for row in range(7):
            one, state = mixer.extend(then[row : row + 1], at(ragged, row))
            close(one[0], y[row], 1e-12)
            last, state = mixer.step(also[row : row + 1], state)
            close(last[0], token[row], 1e-12)
            assert int(state["length"]) == int(stepped["length"][row]) == int(keep[row].sum()) + 3
            expected = mixer(torch.cat([x[row, keep[row]], then[row], also[row][None]])[None])[0]
            close(torch.cat([y[row], token[row][None]]), expected[-3:], 1e-12)
        reused, _ = mixer.step(also, {name: tensor.clone() for name, tensor in after.items()}, reuse=True)
        close(reused, token, 1e-12)


@every_mixer
def test_dropped_tokens_are_as_if_never_written(make: Make) -> None:
    check_keep_forward(make)


@every_mixer
def test_dropped_tokens_leave_no_trace_in_the_state(make: Make) -> None:
    check_keep_reading(make)


@every_mixer
def test_a_row_does_not_depend_on_the_others(make: Make) -> None:
    check_rows(make)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_keep_forward, check_rows])
@every_example
def test_in_the_wider_size_too(make: Make, check: Callable[[Make, bool], None]) -> None:
    check(make, True)

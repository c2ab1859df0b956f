"""Pieces, steps and the whole sequence are one function, in value and in gradient.

In `make test` a mixer that is built on the lag sum is read in two sizes, the wider one through the FFT; the others in
the smaller one alone. In `make test-all` all are read in both.
"""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from seqloom.contracts.reading import in_pieces, in_steps, pieces, token_steps
from seqloom.core.mixer import Mixer
from tests.contract.cases import (
    DIM,
    Make,
    at_each_size,
    close,
    draw,
    every_example,
    every_mixer,
    holds,
    leaves,
    streams,
    sums_lags,
)


def check_pieces(make: Make, wide: bool = False) -> None:
    """Promise 2: any cut of the sequence gives the whole, and the same state."""
    if streams(make):
        holds(pieces, make, wide)


def check_step(make: Make, wide: bool = False) -> None:
    """Promise 3: token by token gives the whole, whoever keeps the states, whatever room there is."""
    if streams(make):
        holds(token_steps, make, wide)
        at_each_size(steps_are_counted, make, (5, 9), (16, 20) if wide else None)


def steps_are_counted(mixer: Mixer, T: int) -> None:
    for reuse in (False, True):
        with torch.no_grad():
            _, state = in_steps(mixer, draw(2, T, DIM), mixer.start(2), [reuse] * T)
        assert state["length"].tolist() == [T, T]


def grads(mixer: Mixer, x: Tensor, read) -> list[Tensor]:
    """Gradients of a fixed sum of outputs to x and to every parameter."""
    mixer.zero_grad()
    x = x.clone().requires_grad_()
    (read(x) * draw(*x.shape, seed=3)).sum().backward()
    return [x.grad, *(mixer.get_parameter(name).grad for name in leaves(mixer))]


def check_gradients_through_pieces(make: Make, wide: bool = False) -> None:
    """Promise 7: gradients through start → extend → extend, and through steps, are those of forward."""
    if streams(make):
        at_each_size(gradients_are_the_wholes, make, (5, 7), (16, 20) if wide or sums_lags(make) else None)


def gradients_are_the_wholes(mixer: Mixer, T: int) -> None:
    x = draw(2, T, DIM)
    expected = grads(mixer, x, mixer)
    for cuts in ([3], [2, 4], [0, 1, T]):

        def by_pieces(x: Tensor, mixer: Mixer = mixer, cuts: list[int] = cuts) -> Tensor:
            return in_pieces(mixer, x, cuts)[0]

        for actual, want in zip(grads(mixer, x, by_pieces), expected, strict=True):
            close(actual, want)

    def steps(x: Tensor, mixer: Mixer = mixer, T: int = T) -> Tensor:
        return in_steps(mixer, x, mixer.start(2), [False] * T)[0]

    for actual, want in zip(grads(mixer, x, steps), expected, strict=True):
        close(actual, want)


@every_mixer
def test_any_cut_gives_the_whole(make: Make) -> None:
    check_pieces(make)


@every_mixer
def test_steps_give_the_whole(make: Make) -> None:
    check_step(make)


@every_mixer
def test_gradients_through_pieces_are_those_of_the_whole(make: Make) -> None:
    check_gradients_through_pieces(make)


@pytest.mark.slow
@pytest.mark.parametrize("check", [check_pieces, check_step, check_gradients_through_pieces])
@every_example
def test_in_the_wider_size_too(make: Make, check: Callable[[Make, bool], None]) -> None:
    check(make, True)

"""Pieces, steps and the whole are one function, in value and in gradient."""

import random

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from tests.contract.cases import (
    DIM,
    Make,
    at_each_size,
    close,
    draw,
    every_mixer,
    leaves,
    same_state,
    streams,
)


def in_pieces(mixer: Mixer, x: Tensor, cuts: list[int], state: State | None = None) -> tuple[Tensor, State]:
    """x read with `extend`, cut before each of the places."""
    state = mixer.start(len(x)) if state is None else state
    outputs = []
    for begin, end in zip([0, *cuts], [*cuts, x.shape[1]], strict=True):
        y, state = mixer.extend(x[:, begin:end], state)
        outputs.append(y)
    return torch.cat(outputs, 1), state


def in_steps(mixer: Mixer, x: Tensor, state: State, reuse: list[bool]) -> tuple[Tensor, State]:
    outputs = []
    for place, again in enumerate(reuse):
        y, state = mixer.step(x[:, place], state, reuse=again)
        outputs.append(y.clone())
    return torch.stack(outputs, 1), state


def check_pieces(make: Make) -> None:
    """Promise 2: any cut of the sequence gives the whole, and the same state."""
    if streams(make):
        at_each_size(pieces_are_the_whole, make, (5, 9), (16, 37))


@torch.no_grad()
def pieces_are_the_whole(mixer: Mixer, T: int) -> None:
    draws = random.Random(0)
    x = draw(2, T, DIM)
    whole = mixer(x)
    _, after = mixer.extend(x, mixer.start(2))
    after = mixer.trim(after)
    two = [[cut] for cut in range(T + 1)] if T < 10 else [[1], [T // 2], [T - 1]]
    more = [sorted(draws.choices(range(T + 1), k=k)) for k in (2, 3, 4, 6)]
    for cuts in [*two, *more, [0, 0, 3, 3, T, T], list(range(1, T))]:
        y, state = in_pieces(mixer, x, cuts)
        close(y, whole)
        same_state(mixer.trim(state), after)


def check_step(make: Make) -> None:
    """Promise 3: token by token gives the whole, whoever keeps the states, whatever room there is."""
    if streams(make):
        at_each_size(steps_are_the_whole, make, (5, 9), (16, 20))


def steps_are_the_whole(mixer: Mixer, T: int) -> None:
    x = draw(2, T, DIM)
    draws = random.Random(1)
    with torch.no_grad():
        whole = mixer(x)
        mixed = [draws.random() < 0.5 for _ in range(T)]
        for reuse in ([False] * T, [True] * T, mixed):
            for capacity in (None, 0, 2, T, 3 * T):
                y, state = in_steps(mixer, x, mixer.start(2, capacity=capacity), reuse)
                close(y, whole)
                assert state["seen"].tolist() == [T, T]
        for prompt in range(1, T - 1, 3):  # a prompt, then steps, then a piece again
            for capacity in (None, T):
                _, state = mixer.extend(x[:, :prompt], mixer.start(2, capacity=capacity))
                y, state = in_steps(mixer, x[:, prompt : T - 1], state, mixed[prompt : T - 1])
                close(y, whole[:, prompt : T - 1])
                y, _ = mixer.extend(x[:, T - 1 :], state)
                close(y, whole[:, T - 1 :])


def grads(mixer: Mixer, x: Tensor, read) -> list[Tensor]:
    """Gradients of a fixed sum of outputs to x and to every parameter."""
    mixer.zero_grad()
    x = x.clone().requires_grad_()
    (read(x) * draw(*x.shape, seed=3)).sum().backward()
    return [x.grad, *(mixer.get_parameter(name).grad for name in leaves(mixer))]


def check_gradients_through_pieces(make: Make) -> None:
    """Promise 7: gradients through start → extend → extend, and through steps, are those of forward."""
    if streams(make):
        at_each_size(gradients_are_the_wholes, make, (5, 7), (16, 20))


def gradients_are_the_wholes(mixer: Mixer, T: int) -> None:
    x = draw(2, T, DIM)
    wanted = grads(mixer, x, mixer)
    for cuts in ([3], [2, 4], [0, 1, T]):

        def pieces(x: Tensor, mixer: Mixer = mixer, cuts: list[int] = cuts) -> Tensor:
            return in_pieces(mixer, x, cuts)[0]

        for found, want in zip(grads(mixer, x, pieces), wanted, strict=True):
            close(found, want)

    def steps(x: Tensor, mixer: Mixer = mixer, T: int = T) -> Tensor:
        return in_steps(mixer, x, mixer.start(2), [False] * T)[0]

    for found, want in zip(grads(mixer, x, steps), wanted, strict=True):
        close(found, want)


@every_mixer
def test_any_cut_gives_the_whole(make: Make) -> None:
    check_pieces(make)


@every_mixer
def test_steps_give_the_whole(make: Make) -> None:
    check_step(make)


@every_mixer
def test_gradients_through_pieces_are_those_of_the_whole(make: Make) -> None:
    check_gradients_through_pieces(make)

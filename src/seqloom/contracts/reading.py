"""Promises 2 and 3: pieces, steps and the whole sequence are one function.

A mixer reads pieces with `extend` and tokens with `step`. Of another layer that streams, `start(batch)` makes a state;
`step(x, state)` reads (B, D) and returns the output and the next state; `extend(x, state)` is compared where it exists.
"""

import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from seqloom.contracts.finding import Broken, Largest, NotApplicable, promise
from seqloom.contracts.subject import Subject, at_each_size, forward, steps, streams
from seqloom.core.mixer import Mixer


@promise("pieces")
def pieces(subject: Subject) -> Largest:
    """Any cut of the sequence gives the whole, and the same state."""
    _require_streams(subject)
    if not callable(getattr(subject.module(), "extend", None)):
        raise NotApplicable("it has no extend(x, state): it reads on by single tokens")
    worst = Largest(subject.scale)

    def read(module: nn.Module, T: int) -> None:
        _pieces_are_the_whole(subject, module, T, worst)

    at_each_size(read, subject, 4, 21)
    worst.settle()
    return worst


@promise("steps")
def token_steps(subject: Subject) -> Largest:
    """Token by token gives the whole, whether states are reused or not, and at any capacity."""
    _require_streams(subject)
    worst = Largest(subject.scale)

    def read(module: nn.Module, T: int) -> None:
        if isinstance(module, Mixer):
            _steps_are_the_whole(subject, module, T, worst)
        else:
            x = subject.draw_with_repeats(2, T)
            y, _ = in_steps(module, x, start(module, 2), [False] * T)
            _by_position(worst, y, forward(module, x), subject.rounding, "by steps")

    with torch.no_grad():
        at_each_size(read, subject, 4, 4)
    worst.settle()
    return worst


def in_pieces(module: nn.Module, x: Tensor, cuts: list[int], state: Any = None) -> tuple[Tensor, Any]:
    """x read with `extend`, cut before each of the given positions."""
    state = start(module, len(x)) if state is None else state
    extend: Any = module.extend
    outputs = []
    for begin, end in zip([0, *cuts], [*cuts, x.shape[1]], strict=True):
        y, state = extend(x[:, begin:end], state)
        outputs.append(y)
    return torch.cat(outputs, 1), state


def in_steps(module: nn.Module, x: Tensor, state: Any, reuse: list[bool]) -> tuple[Tensor, Any]:
    """x read token by token; `reuse` says for each token whether the state before it may be overwritten."""
    outputs = []
    for position, may_reuse in enumerate(reuse):
        y, state = steps(module, x[:, position], state, may_reuse)
        outputs.append(y.clone())
    return torch.stack(outputs, 1), state


def start(module: nn.Module, batch: int) -> Any:
    """The state of `batch` rows before the first token."""
    begin: Any = module.start
    return begin(batch)


def _require_streams(subject: Subject) -> None:
    if not streams(subject.module()):
        raise NotApplicable("it does not stream: no start(batch) and step(x, state)")


@torch.no_grad()
def _pieces_are_the_whole(subject: Subject, module: nn.Module, T: int, worst: Largest) -> None:
    """Compares outputs, and in a mixer the final states, of a sequence read at once and in pieces cut in many ways."""
    draws = random.Random(0)
    x = subject.draw_with_repeats(2, T)
    whole = forward(module, x)
    _, end_state = in_pieces(module, x, [])
    one_cut = [[cut] for cut in range(T + 1)] if T < 10 else [[1], [T // 2], [T - 1]]
    several_cuts = [sorted(draws.choices(range(T + 1), k=k)) for k in (2, 3, 4, 6)]
    all_cuts = [*one_cut, *several_cuts, [0, 0, min(3, T), min(3, T), T, T], list(range(1, T))]
    if not isinstance(module, Mixer):  # only mixers must read empty pieces
        all_cuts = [sorted({*cuts} - {0, T}) for cuts in all_cuts]
    for cuts in all_cuts:
        y, state = in_pieces(module, x, cuts)
        _by_position(worst, y, whole, subject.rounding, f"cut at {cuts}")
        if isinstance(module, Mixer):
            same_state(worst, module.trim(state), module.trim(end_state), subject.rounding, f"cut at {cuts}")


def _steps_are_the_whole(subject: Subject, mixer: Mixer, T: int, worst: Largest) -> None:
    """Compares outputs of a sequence read at once, by steps, and by a prompt, steps and a last piece."""
    x = subject.draw_with_repeats(2, T)
    draws = random.Random(1)
    whole = mixer(x)
    mixed = [draws.random() < 0.5 for _ in range(T)]
    grows = any(entry.grows for entry in mixer.state_spec.values())
    for reuse in ([False] * T, [True] * T, mixed):
        for capacity in (None, 0, 2, T, 3 * T) if grows else (None,):
            y, _ = in_steps(mixer, x, mixer.start(2, capacity=capacity), reuse)
            _by_position(worst, y, whole, subject.rounding, f"by steps, capacity {capacity},")
    for prompt in range(1, T - 1, 3):  # a prompt, then steps, then a piece again
        for capacity in (None, T) if grows else (None,):
            _, state = mixer.extend(x[:, :prompt], mixer.start(2, capacity=capacity))
            y, state = in_steps(mixer, x[:, prompt : T - 1], state, mixed[prompt : T - 1])
            expected = whole[:, prompt : T - 1]
            _by_position(worst, y, expected, subject.rounding, f"by steps after a prompt of {prompt},")
            y, _ = mixer.extend(x[:, T - 1 :], state)
            worst.close(y, whole[:, T - 1 :], subject.rounding, f"a last piece after a prompt of {prompt} and steps")


def same_state(worst: Largest, result: Any, expected: Any, rounding: float, where: str) -> None:
    """Compares two states of a mixer: names, shapes and, up to rounding, numbers."""
    result_leaves, result_tree = tree_flatten(result)
    expected_leaves, expected_tree = tree_flatten(expected)
    if result_tree != expected_tree:
        raise Broken(f"{where}: the state is {result_tree}, wanted {expected_tree}")
    for result_leaf, expected_leaf in zip(result_leaves, expected_leaves, strict=True):
        if isinstance(result_leaf, Tensor):
            worst.close(result_leaf.double(), expected_leaf.double(), rounding, f"{where} the state")


def _by_position(worst: Largest, result: Tensor, expected: Tensor, rounding: float, where: str) -> None:
    """Compares outputs (B, T, D), and names the first token that is off."""
    if result.shape == expected.shape and expected.numel():
        allowed = rounding * max(worst.least, float(expected.abs().max()))
        is_off = ~((result - expected).abs().amax((0, 2)) <= allowed)  # not "> allowed": NaN is off too
        if bool(is_off.any()):
            where = f"{where} from token {int(is_off.int().argmax())} on, the output"
    worst.close(result, expected, rounding, where)

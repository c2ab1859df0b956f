"""torch.compile without graph breaks and torch.export give the same numbers."""

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.ops.backends import use
from tests.contract.cases import (
    DIM,
    Make,
    close,
    draw,
    every_kind,
    every_lag_sum,
    fits,
    other_examples,
    same_state,
    streams,
)

pytestmark = pytest.mark.graph
LOOSE = 1e-9
"""a compiler may add in another order"""


class Verbs(nn.Module):
    """Every verb of a mixer in one graph: two pieces, one with dropped tokens, then a step that keeps the old state."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, keep: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor, State]:
        first, state = self.mixer.extend(x, state)
        second, state = self.mixer.extend(x, state, keep)
        token, state = self.mixer.step(x[:, 0], state, reuse=False)
        return first, second, token, state


def with_gradients(run, mixer: Mixer, *given: Tensor | None) -> list[Tensor]:
    mixer.zero_grad()
    x = given[0].clone().requires_grad_()
    y = run(x, *given[1:])
    y.square().sum().backward()
    return [y, x.grad, *(parameter.grad for parameter in mixer.parameters())]


def check_compiles(make: Make, backend: str = "eager") -> None:
    """Promise 12: forward with its gradients, extend and step under torch.compile(fullgraph=True).

    In `make test` the graphs are made and run as they are, forward with dropped tokens alone (the other forward is that
    of `check_exports`); in `make test-all` both are compiled, gradients too.
    """
    torch._dynamo.reset()
    mixer = make(context=3)
    x, keep = draw(2, fits(mixer, 5), DIM), torch.tensor([[True] * 5, [False, True, True, False, True]])
    keep = keep[:, : x.shape[1]]
    compiled = torch.compile(mixer, fullgraph=True, backend=backend)
    for given in ((x, keep), *([] if backend == "eager" else [(x, None)])):
        for found, wanted in zip(
            with_gradients(compiled, mixer, *given), with_gradients(mixer, mixer, *given), strict=True
        ):
            close(found, wanted, LOOSE)
    if not streams(make):
        return
    mixer = make()  # with room for both pieces and a step where there is a longest sequence
    verbs = Verbs(mixer)
    piece, keep = x[:, :2], keep[:, :2]
    with torch.no_grad():
        *wanted, after = verbs(piece, keep, mixer.start(2))
        compiled = torch.compile(verbs, fullgraph=True, backend=backend)
        *found, state = compiled(piece, keep, mixer.start(2))
        for a, b in zip(found, wanted, strict=True):
            close(a, b, LOOSE)
        same_state(mixer.trim(state), mixer.trim(after), LOOSE)


class Step(nn.Module):
    """One step that keeps the old state."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.mixer.step(x, state)


def check_exports(make: Make) -> None:
    """Promise 12: forward and step under torch.export, saved as a graph and run."""
    mixer = make(context=3)
    x = draw(2, fits(mixer, 5), DIM)
    with torch.no_grad():
        program = torch.export.export(mixer, (x,), strict=False)
        for seed in (0, 1):
            other = draw(*x.shape, seed=seed)
            close(program.module()(other), mixer(other), LOOSE)
    if not streams(make):
        return
    mixer = make()
    with torch.no_grad():
        _, state = mixer.extend(draw(2, 2, DIM), mixer.start(2, capacity=5))
        step = torch.export.export(Step(mixer), (draw(2, DIM), state), strict=False).module()
        for seed in (0, 1):
            x = draw(2, DIM, seed=seed)
            (found, after), (wanted, then) = step(x, state), mixer.step(x, state)
            close(found, wanted, LOOSE)
            same_state(mixer.trim(after), mixer.trim(then), LOOSE)


@every_kind
def test_compiles(make: Make) -> None:
    with use(lag_sum="fft"):  # what runs at the lengths that people train on
        check_compiles(make)


@every_kind
def test_exports(make: Make) -> None:
    with use(lag_sum="fft"):
        check_exports(make)


@pytest.mark.slow
@every_lag_sum
def test_short_lengths_compile_and_export(make: Make) -> None:
    with use(lag_sum="direct"):
        check_compiles(make, backend="aot_eager")
        check_exports(make)


@pytest.mark.slow
@other_examples
def test_other_examples_compile_and_export(make: Make) -> None:
    check_compiles(make, backend="aot_eager")
    check_exports(make)


@pytest.mark.slow
@every_kind
def test_compiles_to_native_code(make: Make) -> None:
    with use(lag_sum="fft"):
        check_compiles(make, backend="inductor")


@pytest.mark.slow
@every_lag_sum
def test_short_lengths_compile_to_native_code(make: Make) -> None:
    with use(lag_sum="direct"):
        check_compiles(make, backend="inductor")

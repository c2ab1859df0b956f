"""torch.compile without graph breaks and torch.export give the same numbers."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx._lazy_graph_module import _use_lazy_graph_module

from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use
from tests.contract.cases import (
    CASES,
    DIM,
    Make,
    close,
    draw,
    every_kind,
    every_kind_in_one_form,
    fits,
    other_examples,
    same_state,
    streams,
    sums_lags,
)

pytestmark = pytest.mark.graph
LOOSE = 1e-9
"""a compiler may add in another order"""


@pytest.fixture(autouse=True, scope="module")
def without_reports() -> Iterator[None]:
    """Graphs without what torch records for its reports alone, which takes a sixth of an export and of a compilation.

    Nodes do not know the lines that they come from, writes into objects are not described, guards are not timed (which
    empties the processor's caches), and the code of an intermediate graph is written only where the graph is called.
    """
    quiet = torch._dynamo.config.patch(side_effect_replay_policy="silent")
    with pytest.MonkeyPatch.context() as patch, _use_lazy_graph_module(True), quiet:
        patch.setattr(torch.fx.config, "do_not_emit_stack_traces", True)
        patch.setattr(torch._dynamo.guards, "profile_guard_manager", lambda *_: 0.0)
        yield


class Verbs(nn.Module):
    """Every verb in one graph: the whole, then without gradients a piece and a step that keeps the old state.

    Tokens are dropped in the whole alone; `Pieces` drops them from a piece too.
    """

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, keep: Tensor, state: State | None) -> tuple[Tensor, ...] | tuple[Tensor, State]:
        whole = self.mixer(x, keep)
        if state is None:
            return (whole,)
        with torch.no_grad():
            piece, state = self.mixer.extend(x[:, :2], state)
            token, state = self.mixer.step(x[:, 0], state, reuse=False)
        return whole, piece, token, state


class Pieces(nn.Module):
    """Two pieces, one with dropped tokens, then a step that keeps the old state."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, keep: Tensor, state: State) -> tuple[Tensor, Tensor, Tensor, State]:
        first, state = self.mixer.extend(x, state)
        second, state = self.mixer.extend(x, state, keep)
        token, state = self.mixer.step(x[:, 0], state, reuse=False)
        return first, second, token, state


def with_gradients(run, mixer: Mixer, *given: Any) -> tuple[list[Tensor], State]:
    """What `run` returns, the state apart, and the gradients of the first output to x and every parameter."""
    mixer.zero_grad()
    x = given[0].clone().requires_grad_()
    out = run(x, *given[1:])
    y = out if isinstance(out, tuple) else (out,)
    tensors = [each for each in y if isinstance(each, Tensor)]
    tensors[0].square().sum().backward()
    state = next((each for each in y if isinstance(each, dict)), {})
    return [*tensors, x.grad, *(parameter.grad for parameter in mixer.parameters())], state


def same_with_gradients(compiled, run, mixer: Mixer, *given: Any) -> None:
    """Fails unless both return the same, with the same gradients."""
    (actual, state), (expected, after) = (with_gradients(each, mixer, *given) for each in (compiled, run))
    for one, other in zip(actual, expected, strict=True):
        close(one, other, LOOSE)
    if after:
        same_state(mixer.trim(state), mixer.trim(after), LOOSE)


def inputs(mixer: Mixer) -> tuple[Tensor, Tensor]:
    """x and keep of more tokens than the context, if it takes them."""
    T = fits(mixer, 4)
    keep = torch.tensor([[True] * 4, [False, True, False, True]])
    return draw(2, T, DIM), keep[:, :T]


def check_compiles(make: Make, backend: str = "eager") -> None:
    """Promise 12: forward with its gradients, extend and step under torch.compile(fullgraph=True), in one graph.

    Capturing takes most of the time with `eager`, which runs the graph as it is; the compiler of C++ with `inductor`.
    """
    torch._dynamo.reset()
    mixer = make(context=3)
    x, keep = inputs(mixer)
    verbs = Verbs(mixer)
    state = mixer.start(2, capacity=4) if streams(make) else None
    same_with_gradients(torch.compile(verbs, fullgraph=True, backend=backend), verbs, mixer, x, keep, state)


def compiles_each_verb(make: Make) -> None:
    """Promise 12 by `aot_eager`: forward with and without dropped tokens, its gradients too; pieces and a step."""
    torch._dynamo.reset()
    mixer = make(context=3)
    x, keep = inputs(mixer)
    compiled = torch.compile(mixer, fullgraph=True, backend="aot_eager")
    for given in ((x, keep), (x, None)):
        same_with_gradients(compiled, mixer, mixer, *given)
    if not streams(make):
        return
    mixer = make()  # with room for both pieces and a step where there is a longest sequence
    read = Pieces(mixer)
    piece, keep = x[:, :2], keep[:, :2]
    with torch.no_grad():
        *expected, after = read(piece, keep, mixer.start(2, capacity=8))
        compiled = torch.compile(read, fullgraph=True, backend="aot_eager")
        *actual, state = compiled(piece, keep, mixer.start(2, capacity=8))
        for a, b in zip(actual, expected, strict=True):
            close(a, b, LOOSE)
        same_state(mixer.trim(state), mixer.trim(after), LOOSE)


class WholeAndStep(nn.Module):
    """The whole sequence and, from a state, one step that keeps it: in one graph, since each export takes a second."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, Tensor, State]:
        y = self.mixer(x)
        return (y, *(self.mixer.step(x[:, 0], state) if state is not None else (y, {})))


def check_exports(make: Make) -> None:
    """Promise 12: forward and step under torch.export, saved as a graph and run on other inputs."""
    mixer = make(context=3)
    x = draw(2, fits(mixer, 5), DIM)
    with torch.no_grad():
        state = None
        if streams(make):
            _, state = mixer.extend(draw(2, fits(mixer, 3) - 1, DIM), mixer.start(2, capacity=5))
        verbs = WholeAndStep(mixer)
        exported = torch.export.export(verbs, (x, state), strict=False).module()
        other = draw(*x.shape, seed=1)
        (*actual, after), (*expected, then) = exported(other, state), verbs(other, state)
        for one, another in zip(actual, expected, strict=True):
            close(one, another, LOOSE)
        if then:
            same_state(mixer.trim(after), mixer.trim(then), LOOSE)


@every_kind_in_one_form
def test_compiles(make: Make) -> None:
    with use(lag_sum="fft"):  # what runs at the lengths that people train on
        check_compiles(make)


@every_kind_in_one_form
def test_exports(make: Make) -> None:
    with use(lag_sum="fft"):
        check_exports(make)


class Step(nn.Module):
    """One token that keeps the old state."""

    def __init__(self, mixer: Mixer) -> None:
        super().__init__()
        self.mixer = mixer

    def forward(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        return self.mixer.step(x, state, reuse=False)


@pytest.mark.parametrize("kind", ["attention", "fox", "mla"])
def test_an_exported_step_takes_caches_of_any_size(kind: str) -> None:
    """One graph takes the states that it returns, and those that the host has given more room."""
    mixer = mixer_config({"kind": kind, "heads": 2}).build(DIM, None).double()
    x = draw(2, 9, DIM)
    with torch.no_grad():
        _, state = mixer.extend(x[:, :3], mixer.start(2, capacity=6))
        free = torch.export.Dim("cached", min=3)
        sizes = [{tensor.dim() - 2: free} if tensor.dim() > 1 else None for tensor in state.values()]
        exported = torch.export.export(Step(mixer), (x[:, 3], state), dynamic_shapes=(None, sizes), strict=False)
        step, actual, expected = exported.module(), state, state
        for t in range(3, 9):
            if t == 6:
                with pytest.raises(RuntimeError, match="no room for another token"):
                    step(x[:, t], actual)
                actual = mixer.reserve(actual, 3)
            y, actual = step(x[:, t], actual)
            z, expected = mixer.step(x[:, t], expected, reuse=False)
            close(y, z, LOOSE)
    same_state(mixer.trim(actual), mixer.trim(expected), LOOSE)


@pytest.mark.slow
@every_kind
def test_short_lengths_compile_and_export(make: Make) -> None:
    if not sums_lags(make):
        pytest.skip("not built on the lag sum, whose backend makes another graph")
    with use(lag_sum="direct"):
        compiles_each_verb(make)
        check_exports(make)


@pytest.mark.slow
@other_examples
def test_other_examples_compile_and_export(make: Make) -> None:
    compiles_each_verb(make)
    check_exports(make)


@pytest.mark.slow(12)
@every_kind
def test_compiles_to_native_code(make: Make) -> None:
    with use(lag_sum="fft"):
        check_compiles(make, "inductor")


@pytest.mark.slow
@pytest.mark.parametrize("make", [case for case in CASES if case.first and case.kind in ("she", "he", "me")], ids=str)
def test_short_lengths_compile_to_native_code(make: Make) -> None:
    """Taps of matrices, of low rank and of numbers; what other mixers do around the lag sum, they do at all lengths."""
    with use(lag_sum="direct"):
        check_compiles(make, "inductor")

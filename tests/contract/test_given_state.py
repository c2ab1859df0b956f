"""A given state is compared with the mixer's declaration before anything is computed; others raise an error."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.core.state_spec import StateEntry, StateSpec, check
from tests.contract.cases import CASES, DIM, Case, Make, copied, draw, every_kind, every_mixer, streams, untouched
from tests.contract.test_refusals import no


def damaged(mixer: Mixer, state: State) -> Iterator[tuple[str, State, str]]:
    """States that are not the mixer's: the change, the state, and the word that the error must contain."""
    yield "an entry more", {**state, "other": state["length"]}, "'other'"
    for name, tensor in state.items():
        yield f"without {name}", {key: entry for key, entry in state.items() if key != name}, f"'{name}'"
        changes: dict[str, object] = {
            "an axis more": tensor[..., None],
            "on another device": tensor.to("meta"),
            "in another dtype": tensor.int() if name == "length" else tensor.to(torch.complex128),
            "in half": tensor.half(),
            "a list": tensor.tolist(),
        }
        if tensor.ndim > 1:
            changes["no axes"] = tensor[:, 0] if tensor.shape[1] else tensor.flatten()
        for axis in range(1, tensor.ndim):
            entry = mixer.state_spec.get(name)
            if entry is not None and entry.grows and axis == 1 + entry.axis:
                continue
            if size := tensor.shape[axis]:
                changes[f"more at {axis}"] = torch.cat([tensor, tensor], axis)
                changes[f"fewer at {axis}"] = tensor.narrow(axis, 1, size - 1)
        for change, changed in changes.items():
            yield f"{name}: {change}", {**state, name: changed}, f"'{name}'"
    growing = [name for name, entry in mixer.state_spec.items() if entry.grows]
    for name in growing[1:]:
        axis = 1 + mixer.state_spec[name].axis
        fewer = state[name].narrow(axis, 1, state[name].shape[axis] - 1)
        yield f"{name} with a position less", {**state, name: fewer}, f"'{name}'"
    if growing and (most := mixer.state_spec[growing[0]].max_slots) is not None:
        room = torch.zeros(2, *mixer.state_spec[growing[0]].sizes(most + 1)).double()
        yield "more positions than it may have", {**state, **dict.fromkeys(growing, room)}, f"'{growing[0]}'"


def raises_for(mixer: Mixer, state: State, word: str, why: str) -> None:
    """Fails unless every verb that takes a state raises an error that holds `word`, and leaves the state unchanged."""
    was = {name: tensor.clone() for name, tensor in state.items() if isinstance(tensor, Tensor)}
    x = draw(2, 2, DIM)
    verbs = {
        "extend": lambda: mixer.extend(x, state),
        "extend of nothing": lambda: mixer.extend(x[:, :0], state),
        "step": lambda: mixer.step(x[:, 0], state),
        "step with reuse": lambda: mixer.step(x[:, 0], state, reuse=True),
        "trim": lambda: mixer.trim(state),
    }
    for verb, call in verbs.items():
        try:
            message = no(call)
        except BaseException as error:
            raise AssertionError(f"{verb}, {why}: {type(error).__name__}: {error}") from error
        assert word in message, f"{verb}, {why}: {word} is not in: {message}"
        assert all(torch.equal(state[name], tensor) for name, tensor in was.items() if not tensor.is_meta), why


def check_given_state(make: Make) -> None:
    """A state with a wrong, a missing or an extra entry is an error in every verb, before and after valid states."""
    if not streams(make):
        return
    mixer = make()
    with torch.no_grad():
        state = mixer.step(draw(2, DIM), mixer.extend(draw(2, 2, DIM), mixer.start(2))[1])[1]
        was = copied(state)
        for why, other, word in damaged(mixer, state):
            raises_for(mixer, other, word, why)
        untouched(state, was)
        mixer.step(draw(2, DIM), state)


def check_other_context(make: Make) -> None:
    """The state of another context is an error where the context sizes the state."""
    if not streams(make):
        return
    mixer, other = make(), make(context=4)
    if dict(mixer.state_spec) == dict(other.state_spec):
        return
    with torch.no_grad():
        state = make(context=7).extend(draw(2, 6, DIM), make(context=7).start(2))[1]
        raises_for(mixer, state, "state entry", "of another context")


def assert_read_outside_of_inference_mode(make: Make) -> None:
    """A state that was made in inference mode is read outside of it: by every verb, with gradients, bit for bit."""
    if not streams(make):
        return
    mixer, tokens = make(), draw(2, 2, DIM, seed=3)
    verbs: dict[str, Callable[[Tensor, State], Tensor]] = {
        "step": lambda x, state: mixer.step(x, state)[0],
        "step with reuse": lambda x, state: x + torch.no_grad()(mixer.step)(x, state, reuse=True)[0],
        "extend": lambda x, state: mixer.extend(x[:, None], state)[0],
        "extend with keep": lambda x, state: mixer.extend(x[:, None], state, torch.ones(2, 1, dtype=torch.bool))[0],
    }
    for name, verb in verbs.items():
        made = []
        for mode in (torch.no_grad, torch.inference_mode):
            with mode():
                state = mixer.step(tokens[:, 0], mixer.start(2))[1]
            x = tokens[:, 1].clone().requires_grad_()
            y = verb(x, state)
            made.append([y, *torch.autograd.grad(y.sum(), x, allow_unused=True, materialize_grads=True)])
        assert all(torch.equal(one, other) for one, other in zip(*made, strict=True)), name


@cache
def every_state(others: bool) -> list[tuple[Case, StateSpec, State]]:
    """The state of each kind after two tokens, with its declaration; with `others` under its other examples."""
    mixers = [(case, case()) for case in CASES if case.causal and case.first != others]
    return [
        (case, mixer.state_spec, mixer.extend(draw(2, 2, DIM), mixer.start(2))[1])
        for case, mixer in mixers
        if mixer.traits.streams
    ]


@every_mixer
def test_a_given_state_is_checked(make: Make) -> None:
    check_given_state(make)


@every_kind
def test_a_state_of_inference_mode_is_read_outside_of_it(make: Make) -> None:
    assert_read_outside_of_inference_mode(make)


@every_mixer
def test_a_state_of_another_context_is_an_error(make: Make) -> None:
    check_other_context(make)


@torch.no_grad()
@pytest.mark.parametrize("others", [False, pytest.param(True, marks=pytest.mark.slow)])
@every_kind
def test_states_of_other_mixers_are_errors(make: Case, others: bool) -> None:
    mixer = make()
    if not mixer.traits.streams:
        return
    for other, memory, state in every_state(others):
        a_piece_of_it = memory.keys() == mixer.state_spec.keys() and all(
            entry.grows for entry in mixer.state_spec.values()
        )
        if dict(memory) != dict(mixer.state_spec) and not a_piece_of_it:  # a window is also a cache of so many tokens
            raises_for(mixer, state, "entry", f"of {other}")


@pytest.mark.parametrize("kind", ["aft_simple", "rwkv"])
@pytest.mark.parametrize("reuse", [False, True])
def test_sums_of_fewer_channels_are_errors(kind: str, reuse: bool) -> None:
    mixer = Case(kind, (), True)(dtype=torch.float32)
    state = mixer.start(2)
    state["sums"] = state["sums"][:, :, :4].contiguous()
    says = r"'sums' is \(2, 3, 4\) float32 .* is \(2, 3, 8\) .*start\(2\)"
    with torch.no_grad(), pytest.raises(ValueError, match=says):
        mixer.step(draw(2, DIM, dtype=torch.float32), state, reuse=reuse)


def test_the_dtype_of_the_moment_counts() -> None:
    """A state of before `to` does not fit after it."""
    mixer = Case("he", (), True)(dtype=torch.float32)
    x, state = draw(2, DIM, dtype=torch.float32), mixer.start(2)
    with torch.no_grad():
        mixer.step(x, state)
        mixer.double()
        no(lambda: mixer.step(x, state))
        mixer.step(x.double(), mixer.start(2))


@pytest.mark.parametrize(("most", "positions"), [(None, "0 or more"), (4, "0 to 4")])
def test_an_error_names_how_many_positions_a_state_may_have(most: int | None, positions: str) -> None:
    state = {"cache": torch.zeros(2, 6, 7), "length": torch.zeros(2, dtype=torch.long)}
    with pytest.raises(ValueError, match=rf"'cache' is \(2, 6, 7\) float32 on cpu, this mixer's is \(2, {positions}"):
        check({"cache": StateEntry((0, 8), grows=True, max_slots=most)}, state, 2, torch.float32, torch.device("cpu"))

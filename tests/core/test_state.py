"""States: what the host knows of their length, and the operations that take every kind of state."""

import copy
import pickle

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.utils import _pytree

from seqloom.core.mixer import Mixer
from seqloom.core.state import (
    Length,
    ModelState,
    State,
    bound_state,
    count_read,
    fill_state,
    flat,
    is_known,
    length_of,
    nbytes,
    repeat,
    require_reusable,
    restart_rows,
    select,
)
from tests.contract.cases import CASES, DIM, Case, draw, every_kind

READS_VALUES = {
    "hyena": "it compares the parameters of its cached filter by value",
    "adaptive_span": "on a CPU, which waits for nothing, it reads its spans, to leave out keys behind the largest",
}


def layer(*lengths: int) -> State:
    return State({"k": torch.arange(len(lengths) * 2.0).view(-1, 2), "length": torch.tensor(lengths)}, max(lengths))


def model(*lengths: int) -> ModelState:
    return ModelState(((layer(*lengths), layer(*lengths)),), State({"length": torch.tensor(lengths)}, max(lengths)))


def test_rows_are_selected_and_repeated_in_every_tensor() -> None:
    state = model(3, 5)
    chosen = select(state, torch.tensor([1, 1, 0]))
    assert flat(chosen)["layers.0.1.k"].tolist() == [[2, 3], [2, 3], [0, 1]]
    assert flat(chosen)["extra.length"].tolist() == [5, 5, 3]
    assert chosen.layers[0][0].bound == 5
    assert flat(repeat(state, 2))["layers.0.0.k"].tolist() == [[0, 1], [0, 1], [2, 3], [2, 3]]
    assert nbytes(state) == 2 * 16


def test_rows_are_restarted_and_the_others_go_on() -> None:
    state, start = model(3, 5), model(0, 0)
    again = restart_rows(state, torch.tensor([True, False]), start)
    assert flat(again)["extra.length"].tolist() == [0, 5]
    assert flat(again)["layers.0.1.k"].tolist() == [[0, 1], [2, 3]]  # those of `start`, then its own
    grown = ModelState(((State({"k": torch.ones(2, 3), "length": torch.tensor([3, 5])}, 5),),), state.extra)
    empty = ModelState(((State({"k": torch.ones(2, 0), "length": torch.tensor([0, 0])}, 0),),), start.extra)
    assert flat(restart_rows(grown, torch.tensor([False, True]), empty))["layers.0.0.k"].tolist() == [[1] * 3, [0] * 3]


def test_what_is_saved_is_filled_in_again() -> None:
    state = model(3, 5)
    again = fill_state(model(0, 0), flat(state))
    assert type(again) is ModelState
    assert all(flat(again)[name].equal(tensor) for name, tensor in flat(state).items())
    assert (again.extra.bound, again.extra.even) == (5, False)
    assert fill_state(layer(0, 0), flat(layer(4, 4))).even
    with pytest.raises(ValueError, match=r"lacks entry 'extra\.length'"):
        fill_state(model(0, 0), {name: tensor for name, tensor in flat(state).items() if name != "extra.length"})
    with pytest.raises(ValueError, match="has a foreign entry 'z'"):
        fill_state(layer(0, 0), {**layer(1, 2), "z": torch.zeros(2)})


@pytest.mark.parametrize("state", [layer(3, 5), State(layer(3, 5)), copy.deepcopy(layer(3, 5)), dict(layer(3, 5))])
def test_a_length_that_is_not_known_is_read_once(state: State) -> None:
    known = bound_state(state)
    assert length_of(known)[1:] == (5, False)
    assert bound_state(known) is known
    assert pickle.loads(pickle.dumps(known)).keys() == known.keys()


def test_a_changed_length_is_no_longer_known() -> None:
    state = layer(3, 5)
    state["length"] = torch.tensor([9, 9])
    assert length_of(bound_state(state))[1:] == (9, True)


def test_a_graph_forgets_the_bound_and_keeps_the_tensors() -> None:
    leaves, spec = _pytree.tree_flatten(model(3, 5))
    assert all(isinstance(leaf, torch.Tensor) for leaf in leaves)
    again = _pytree.tree_unflatten(leaves, spec)
    assert (type(again), again.extra.bound) == (ModelState, None)
    assert spec == _pytree.tree_flatten(model(7, 8))[1]


def test_lengths_add_up() -> None:
    length = Length(torch.tensor([2, 2]), 2, True).after(torch.tensor([1, 3]), 3, even=False)
    assert (length.tokens.tolist(), length.bound, length.even) == ([3, 5], 5, False)


class ReadBack(Exception):
    """A value was read back from the device."""


def build(kind: str) -> Mixer:
    return next(case for case in CASES if case.kind == kind)()


@every_kind
def test_no_step_reads_a_value_back(make: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU the host would wait there for all that was computed before."""
    mixer = make()
    if make.kind in READS_VALUES or not mixer.traits.streams:
        return
    with torch.no_grad():
        keep, token, states = torch.tensor([[True] * 2, [True, False]]), draw(2, DIM), []
        for mask in (None, keep):
            _, state = mixer.extend(draw(2, 2, DIM), mixer.start(2, capacity=8), mask)
            states.append(mixer.step(token, state, reuse=True)[1])  # the first works out what the others find ready

        def refuse(*of: object, **named: object) -> None:
            raise ReadBack

        for name in ("tolist", "item", "__bool__", "__int__", "__float__", "__index__", "nonzero", "cpu", "numpy"):
            monkeypatch.setattr(torch.Tensor, name, refuse)
        for state in states:
            _, after = mixer.step(token, state, reuse=True)
            mixer.step(token, after)


@pytest.mark.parametrize("kind", ["attention", "aft_full"])
def test_a_cache_can_be_cropped(kind: str) -> None:
    mixer, x = build(kind), draw(2, 4, DIM)
    with torch.no_grad():
        _, state = mixer.extend(x, mixer.start(2, capacity=8))
        cropped = mixer.crop(state, 2)
        assert (cropped["length"].tolist(), cropped.bound) == ([2, 2], 2)
        assert all(cropped[name].shape[1 + entry.axis] == 2 for name, entry in mixer.state_spec.items())
        torch.testing.assert_close(mixer.extend(x[:, 2:], cropped)[0], mixer.extend(x, mixer.start(2))[0][:, 2:])
        assert mixer.crop(state, 9) is state


def test_a_sum_cannot_be_cropped() -> None:
    mixer = build("linear")
    _, state = mixer.extend(draw(2, 4, DIM), mixer.start(2))
    with pytest.raises(ValueError, match="entry 'sum' of the state does not hold what it was after 2 tokens"):
        mixer.crop(state, 2)


def test_in_a_graph_a_state_has_no_bound_and_no_value_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = torch.tensor([1, 2])
    assert is_known(tokens)
    assert not is_known(tokens.to("meta"))
    with FakeTensorMode():
        assert not is_known(torch.ones(2))
    for name in ("is_compiling", "is_dynamo_compiling"):
        monkeypatch.setattr(torch.compiler, name, lambda: True)
    assert not is_known(tokens)
    state = count_read({"k": tokens}, Length(tokens + 1, 3))
    assert state.bound is None
    assert not state.even
    assert {name: tensor.tolist() for name, tensor in state.items()} == {"k": [1, 2], "length": [2, 3]}


def test_a_state_of_other_rows_is_an_error_with_both_numbers() -> None:
    mixer = build("linear")
    for rows in (1, 3):
        with pytest.raises(
            ValueError, match=f"the state is of {rows} rows, the input of 2; make it with start.2. or ch"
        ):
            mixer.extend(draw(2, 4, DIM), mixer.start(rows))


def test_a_state_is_not_reused_in_forward_mode() -> None:
    require_reusable(layer(1, 1))
    with forward_ad.dual_level(), pytest.raises(ValueError, match="in forward mode: step with reuse=False"):
        require_reusable(layer(1, 1))

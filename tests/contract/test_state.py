"""The rules of the state: its entries, who may write into it, its size, copies of it."""

import torch
from torch import Tensor

from seqloom.core.state import select
from tests.contract.cases import (
    DIM,
    Make,
    close,
    copied,
    draw,
    every_example,
    every_mixer,
    fits,
    refused,
    streams,
    untouched,
)


def check_state_form(make: Make) -> None:
    """A flat dict of tensors, batch first, with `length` (B,) int64; other numbers of rows are errors."""
    if not streams(make):
        return
    mixer = make()
    with torch.no_grad():
        states = [mixer.start(3), mixer.start(3, capacity=4)]
        states += [mixer.extend(draw(3, 4, DIM), states[0])[1], mixer.step(draw(3, DIM), states[1])[1]]
        for state, length in zip(states, (0, 0, 4, 1), strict=True):
            assert isinstance(state, dict)
            assert state["length"].dtype == torch.long, "`length` is not int64"
            assert state["length"].tolist() == [length] * 3
            for name, tensor in state.items():
                assert isinstance(name, str)
                assert isinstance(tensor, Tensor)
                assert len(tensor) == 3, f"{name!r} is not batch first"
            for name, tensor in mixer.trim(state).items():
                assert tensor.is_contiguous()
                assert not tensor.is_complex(), f"{name!r} is saved as complex numbers"
        for batch in (1, 2, 4):
            refused(lambda b=batch: mixer.extend(draw(b, 2, DIM), states[2]), "3", str(batch))
            refused(lambda b=batch: mixer.step(draw(b, DIM), states[2]), "3", str(batch))
        refused(lambda: mixer.extend(draw(3, 2, DIM), {}), "length")
        refused(lambda: mixer.step(draw(3, DIM), {}), "length")


def check_state_is_kept(make: Make) -> None:
    """With reuse=False a state stays unchanged, bit for bit, whatever is read after it."""
    if not streams(make):
        return
    mixer = make(context=3)
    T = fits(mixer, 8) - 3
    x = draw(2, T + 1, DIM)
    with torch.no_grad():
        for capacity in (None, T + 4):
            for pieces in (True, False):
                states = [mixer.start(2, capacity=capacity)]
                before = [copied(states[0])]
                for position in range(T):
                    token = x[:, position]
                    go_on = mixer.extend(token[:, None], states[-1]) if pieces else mixer.step(token, states[-1])
                    untouched(states[-1], before[-1])
                    states.append(go_on[1])
                    before.append(copied(go_on[1]))
                expected = mixer(x)
                for position, state in enumerate(states):  # two continuations of each state
                    close(mixer.step(x[:, position], state)[0], expected[:, position])
                    for follow in (x[:, position : position + 1], draw(2, 2, DIM, seed=8)):
                        close(mixer.extend(follow, state)[0][:, :1], mixer.step(follow[:, 0], state)[0][:, None])
                for state, was in zip(states, before, strict=True):
                    untouched(state, was)


def check_reuse_writes_only_into_what_was_given_up(make: Make) -> None:
    """`reuse` writes only into the given state: into no older state, input or output."""
    if not streams(make):
        return
    mixer = make()
    T = fits(mixer, 7) - 3
    keep_none = torch.zeros(2, 2, dtype=torch.bool)
    faults = set()
    with torch.no_grad():
        _, middle = mixer.extend(draw(2, T, DIM), mixer.start(2, capacity=T + 3))
        for was in (mixer.start(2), mixer.start(2, capacity=T + 3), middle):
            old = copied(was)
            ways_on = {
                "a step": lambda x, old=old: mixer.step(x[:, 0], old),
                "a piece": lambda x, old=old: mixer.extend(x[:, :1], old),
                "an empty piece": lambda x, old=old: mixer.extend(x[:, :0], old),
                "a piece of dropped tokens": lambda x, old=old: mixer.extend(x, old, keep_none),
                "a fork": lambda x, old=old: (x, select(old, torch.arange(2))),
            }
            for name, go_on in ways_on.items():
                x = draw(2, 2, DIM, seed=6)
                old.update(copied(was))
                y, given_up = go_on(x)
                outputs, first = [y], y.clone()
                for position in range(2):
                    token, given_up = mixer.step(x[:, position], given_up, reuse=True)
                    outputs.append(token)
                checked = {
                    "the old state": all(torch.equal(old[part], was[part]) for part in was),
                    "the input": torch.equal(x, draw(2, 2, DIM, seed=6)),
                    "an output": torch.equal(outputs[0], first),
                }
                faults |= {f"after {name}: {what}" for what, kept in checked.items() if not kept}
    assert not faults, f"a step that reuses the new state wrote into more than that: {'; '.join(sorted(faults))}"


def check_crop(make: Make) -> None:
    """A cropped state goes on as the state after the first tokens does, of each row; else a ValueError."""
    if not streams(make):
        return
    mixer = make()
    T = fits(mixer, 8) - 2
    x = draw(2, T + 2, DIM)
    with torch.no_grad():
        for read in (3, T):
            keep = torch.ones(2, read, dtype=torch.bool)
            keep[1, 2:] = False
            _, state = mixer.extend(x[:, :read], mixer.start(2, capacity=T + 2), keep)
            for tokens in range(read + 1):
                _, expected = mixer.extend(x[:, :tokens], mixer.start(2), keep[:, :tokens])
                for given in (state, dict(state)):
                    try:
                        cropped = mixer.crop(given, tokens)
                    except ValueError:
                        continue
                    assert cropped["length"].tolist() == expected["length"].tolist()
                    more = draw(2, 2, DIM, seed=7)
                    close(mixer.extend(more, cropped)[0], mixer.extend(more, expected)[0])
                    close(mixer.step(more[:, 0], cropped)[0], mixer.step(more[:, 0], expected)[0])


@every_mixer
def test_what_a_state_is(make: Make) -> None:
    check_state_form(make)


@every_mixer
def test_a_state_that_is_not_given_up_stays(make: Make) -> None:
    check_state_is_kept(make)


@every_mixer
def test_reuse_writes_only_into_what_was_given_up(make: Make) -> None:
    check_reuse_writes_only_into_what_was_given_up(make)


@every_example
def test_a_cropped_state(make: Make) -> None:
    check_crop(make)

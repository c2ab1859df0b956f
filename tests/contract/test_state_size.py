"""The size of a state, with reuse and without, its copies and `trim`."""

from itertools import pairwise

import torch

from seqloom.core.mixer import Mixer
from seqloom.core.state import State, nbytes, select
from tests.contract.cases import DIM, Make, close, copied, draw, every_mixer, fits, streams, untouched


def reused(mixer: Mixer, state: State, tokens: int) -> list[State]:
    """Every state of a run with reuse, all held, so that no memory is used twice."""
    held = [state]
    for position in range(tokens):
        held.append(mixer.step(draw(2, DIM, seed=position), held[-1], reuse=True)[1])
    return held


def allocated(state: State) -> int:
    """The bytes of the memory in which the entries lie, of which they may be small views; without `length`."""
    storages = [tensor.untyped_storage() for name, tensor in state.items() if name != "length"]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def check_state_size(make: Make) -> None:
    """Constant and window states keep their size; growing ones grow, and with reuse they double rather than copy."""
    if not streams(make):
        return
    mixer = make()
    grows = mixer.traits.state == "grows"
    mixer = make(context=None) if grows and mixer.traits.longest is None else mixer
    tokens = fits(mixer, 32)
    with torch.no_grad():
        state, sizes = mixer.start(2), []
        for position in range(tokens):
            sizes.append(nbytes(mixer.trim(state)))
            state = mixer.step(draw(2, DIM, seed=position), state)[1]
        sizes.append(nbytes(mixer.trim(state)))
        if not grows:
            assert len(set(sizes)) == 1, f"a {mixer.traits.state} state changes its size: {sizes}"
            assert nbytes(mixer.extend(draw(2, tokens, DIM), mixer.start(2))[1]) == sizes[0]
            for rows in (1, 2):  # the view of one row may have no gaps, so that `contiguous` does not copy it
                after = mixer.extend(draw(rows, tokens, DIM), mixer.start(rows))[1]
                assert allocated(after) <= nbytes(after), "the state of a piece keeps more in memory than its entries"
            assert nbytes(mixer.start(2, capacity=tokens)) == sizes[0]
        else:
            assert all(a < b for a, b in pairwise(sizes)), f"the state does not grow: {sizes}"
        for capacity, positions in ((None, 7), (1, 7), (tokens, 1)):
            held = reused(mixer, mixer.start(2, capacity=capacity), tokens)
            assert nbytes(mixer.trim(held[-1])) == sizes[-1], "with reuse the state holds another number of tokens"
            for name in held[0].keys() - {"length"}:
                result, allowed = len({state[name].data_ptr() for state in held}), positions if grows else 1
                assert result <= allowed, f"{name!r} lay in {result} places over {tokens} steps, allowed {allowed}"


def check_fork_and_trim(make: Make) -> None:
    """Rows chosen with `select` continue as before; a trimmed state has no unused capacity and continues alike."""
    if not streams(make):
        return
    mixer = make()
    T = fits(mixer, 9) - 2
    x, then = draw(3, T, DIM), draw(4, 2, DIM, seed=1)
    rows = torch.tensor([2, 0, 0, 1])
    with torch.no_grad():
        for capacity in (None, 40):
            _, state = mixer.extend(x, mixer.start(3, capacity=capacity))
            was = copied(state)
            expected = mixer(torch.cat([x[rows], then], 1))[:, T:]
            forked = select(state, rows)
            close(mixer.extend(then, forked)[0], expected)
            close(mixer.step(then[:, 0], forked, reuse=True)[0], expected[:, 0])
            untouched(state, was)
            trimmed = mixer.trim(state)
            untouched(state, was)
            assert nbytes(trimmed) <= nbytes(state), "a trimmed state is larger than it was"
            _, tight = mixer.extend(x, mixer.start(3))
            assert nbytes(trimmed) == nbytes(mixer.trim(tight)), "trimmed states of equal rows differ in size"
            close(mixer.extend(then, select(trimmed, rows))[0], expected)


@every_mixer
def test_how_large_a_state_gets(make: Make) -> None:
    check_state_size(make)


@every_mixer
def test_states_fork_and_are_trimmed(make: Make) -> None:
    check_fork_and_trim(make)

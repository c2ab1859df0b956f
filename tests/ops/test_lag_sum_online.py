"""The lag sum computed ahead, token by token: against the whole, from any state, at a price that hardly grows."""

import gc
from collections.abc import Iterator
from math import log2

import pytest
import torch
from torch import Tensor

from seqloom.core.state import State, bound_state, count_read, length_of, measure_length, select
from seqloom.core.state_spec import start
from seqloom.ops.lag_sum import lags, online, taps
from seqloom.ops.lag_sum.online import blocks, kept, token
from tests.contract.cases import CASES, Make
from tests.contract.test_keep import check_keep_reading, check_rows
from tests.contract.test_reading import check_pieces, check_step
from tests.contract.test_state import check_reuse_writes_only_into_what_was_given_up, check_state_is_kept
from tests.contract.test_state_size import check_fork_and_trim, check_state_size
from tests.ops.test_lag_sum_window import numbers

GROUPS = {"mixing": 1, "grouped": 2, "each": None, "shared": "shared"}
every_kind = pytest.mark.parametrize("kind", GROUPS)
OURS = [
    pytest.param(case, marks=[] if case.first and case.kind in ("she", "he") else pytest.mark.slow)
    for case in CASES
    if case.kind in ("she", "he", "me", "extractor")
]


def carry(z: Tensor, w: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
    """As the base of a mixer does it: the op, and the count."""
    y, entries = online.carry(z, w, bound_state(state), lengths)
    return y, count_read(entries, measure_length(state["length"] + lengths))


def advance(z: Tensor, w: Tensor, state: State, reuse: bool) -> tuple[Tensor, State]:
    state = bound_state(state)
    y, entries = online.advance(z, w, state, reuse)
    return y, count_read(entries, length_of(state).after(1, 1))


@pytest.fixture(params=["C", "torch"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """In C and without it, so that of the blocks short ones are added up lag by lag and the others transformed."""
    if request.param == "torch":
        monkeypatch.setattr(token, "supports", lambda *_: False)
        monkeypatch.setattr(token, "available", lambda *_: False)
        monkeypatch.setattr(online, "WINDOW_PRODUCTS", 0)
    elif not all(token.available(torch.zeros(1), ndim) for ndim in (1, 3)):
        pytest.skip("no native code here")
    monkeypatch.setattr(token, "LEAF", dict.fromkeys(token.LEAF, 4))
    monkeypatch.setattr(blocks, "LEAF", 2)
    kept.forget()
    yield request.param
    kept.forget()


def drawn(kind: str, L: int, D: int = 6) -> Tensor:
    return numbers(L, *taps.shape(D, GROUPS[kind] or D), seed=1)


def begun(w: Tensor, z: Tensor) -> State:
    return start(online.entries(len(w), z.shape[2]), len(z), 0, w.dtype, w.device)


def stepped(z: Tensor, w: Tensor, state: State, reuse: list[bool] | None = None) -> tuple[Tensor, State]:
    result = []
    for position in range(z.shape[1]):
        y, state = advance(z[:, position], w, state, reuse is None or reuse[position])
        result.append(y)
    return torch.stack(result, 1), state


@pytest.mark.parametrize("L", [2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 33])
def test_each_pair_meets_once(L: int) -> None:
    T, met = 5 * L + 3, {}
    for r in range(1, T):
        joined = blocks.block(r, L)
        assert joined.inputs.stop == r == joined.outputs.start, "what is added comes from before, and goes beyond"
        assert len(joined.outputs) <= L - 1, "an output that has no place yet"
        for i in joined.inputs:
            for j in joined.outputs:
                if 0 < j - i < L:
                    met[i, j] = met.get((i, j), 0) + 1
    expected = {(i, j): 1 for j in range(T) for i in range(max(0, j - L + 1), j)}
    assert {pair: count for pair, count in met.items() if pair[1] < T} == expected


@pytest.mark.slow
def test_the_cost_of_a_token_hardly_grows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of T tokens under as many taps, by the blocks that ran: T log² T, not T²."""
    monkeypatch.setattr(token, "supports", lambda *_: False)
    monkeypatch.setattr(online, "WINDOW_PRODUCTS", 0)
    sizes: list[int] = []

    def added(w: Tensor, past: Tensor, ahead: Tensor, rows: Tensor, end: Tensor, size: int, late: int = 0) -> None:
        sizes.append(size)
        blocks.add(w, past, ahead, rows, end, size, late)

    monkeypatch.setattr(online, "add", added)
    spent = {}
    for T in (64, 256, 1024, 4096):
        sizes.clear()
        w = numbers(T)
        with torch.no_grad():
            stepped(numbers(1, T, 1), w, begun(w, numbers(1, 1, 1)))
        points = (2 << (size - 1).bit_length() for size in sizes if size > blocks.LEAF)
        spent[T] = sum(size * size for size in sizes if size <= blocks.LEAF) + sum(3 * n * log2(n) for n in points)
    over = {T: spent[T] / (T * log2(T) ** 2) for T in spent}
    assert max(over.values()) <= 4 * min(over.values()), f"not as T log² T: {over}"
    assert spent[4096] <= 4096**2 / 8, "no less than the sum over the window"
    assert spent[4096] / spent[64] <= 64**1.5, "growing like a square"


@pytest.mark.sample(3)
@every_kind
@pytest.mark.parametrize(
    ("L", "T", "D"), [(1, 5, 6), (2, 9, 6), (3, 14, 6), (8, 40, 6), (13, 60, 6), (40, 150, 6), (9, 30, 134)]
)
@torch.no_grad()
def test_token_by_token_is_the_whole(way: str, kind: str, L: int, T: int, D: int) -> None:
    z, w = numbers(3, T, D), drawn(kind, L, D)
    torch.testing.assert_close(stepped(z, w, begun(w, z))[0], lags(z, w), rtol=0, atol=1e-11)


@every_kind
@torch.no_grad()
def test_default_leaves_and_blocks_in_float32(kind: str) -> None:
    """With leaves and blocks as in use, in float32."""
    z, w = numbers(2, 400, 6), drawn(kind, 150)
    result = stepped(z.float(), w.float(), begun(w.float(), z))[0]
    torch.testing.assert_close(result.double(), lags(z, w), rtol=0, atol=1e-4)


@pytest.mark.sample(3)
@every_kind
@pytest.mark.parametrize("read", [(5, 5), (11, 11), (12, 12), (40, 40), (0, 3), (2, 31)])
@torch.no_grad()
def test_from_any_state(way: str, kind: str, read: tuple[int, int]) -> None:
    """After a piece, with rows that have read differently, and steps of either kind in turn."""
    L, T = 13, 45
    z, w, lengths = numbers(2, T, 6, seed=3), drawn(kind, L), torch.tensor(read)
    history = numbers(2, max(read), 6, seed=4)
    _, state = carry(history, w, begun(w, z), lengths)
    whole = [lags(torch.cat([history[row, :n], z[row]])[None], w)[0, n:] for row, n in enumerate(read)]
    for reuse in ([True] * T, [n % 7 != 3 for n in range(T)]):
        copied = {name: tensor.clone() for name, tensor in state.items()}
        torch.testing.assert_close(stepped(z, w, copied, reuse)[0], torch.stack(whole), rtol=0, atol=1e-11)


@every_kind
@torch.no_grad()
def test_rows_are_chosen_and_joined(way: str, kind: str) -> None:
    """Forked states continue like their source, and so do rows of states with other schedules."""
    z, w, rows = numbers(3, 70, 6), drawn(kind, 13), torch.tensor([2, 0, 0])
    _, state = stepped(z[:, :21], w, begun(w, z))
    _, piece = carry(z[:1, :29], w, begun(w, z[:1]), torch.tensor([29]))
    joined = {name: torch.cat([select(state, rows)[name], piece[name]]) for name in state}
    follow = numbers(4, 40, 6, seed=8)
    histories = [z[2, :21], z[0, :21], z[0, :21], z[0, :29]]
    whole = [lags(torch.cat([h, follow[row]])[None], w)[0, len(h) :] for row, h in enumerate(histories)]
    torch.testing.assert_close(stepped(follow, w, joined)[0], torch.stack(whole), rtol=0, atol=1e-11)


@pytest.mark.parametrize("kind", ["each", "shared"])
@pytest.mark.parametrize("L", [2, 13, 17, 18])
@torch.no_grad()
def test_after_a_piece_of_any_length_as_after_its_tokens(kind: str, L: int) -> None:
    """With the leaves that are in use, in C where it is there."""
    w = drawn(kind, L)
    z = numbers(1, 40 + 2 * L, 6, seed=3)
    whole = lags(z, w)
    for read in range(40):
        _, state = carry(z[:, :read], w, begun(w, z), torch.tensor([read]))
        rest = stepped(z[:, read : read + 2 * L], w, state)[0]
        torch.testing.assert_close(rest, whole[:, read : read + 2 * L], rtol=0, atol=1e-11)


@pytest.mark.parametrize("read", [5, 12, 29])
@torch.no_grad()
def test_a_row_that_joins_leaves_the_sums_of_the_others(read: int) -> None:
    z, w = numbers(3, 21, 6), drawn("each", 13)
    _, state = stepped(z, w, begun(w, z))
    _, piece = carry(z[:1, :read], w, begun(w, z[:1]), torch.tensor([min(read, 21)]))
    joined = {name: torch.cat([state[name], piece[name]]) for name in state}
    online._recompute_ahead(w, bound_state(joined))
    for name in ("ahead", "origin"):
        assert torch.equal(joined[name][:3], state[name])
    assert joined["origin"][3] >= 0


@pytest.mark.slow
@every_kind
@torch.no_grad()
def test_later_inputs_change_nothing(way: str, kind: str) -> None:
    z, w = numbers(1, 60, 6), drawn(kind, 17)
    before = stepped(z, w, begun(w, z))[0]
    for position in (1, 15, 16, 17, 32, 47):
        changed = z.clone()
        changed[:, position] += 1e6
        after = stepped(changed, w, begun(w, z))[0]
        assert torch.equal(after[:, :position], before[:, :position])
        assert not torch.equal(after[:, position], before[:, position])


@every_kind
@torch.no_grad()
def test_whole_numbers_stay_whole(kind: str) -> None:
    """As long as blocks are added up lag by lag."""
    z, w = numbers(2, 90, 6).mul(9).round().float(), drawn(kind, 24).mul(9).round().float()
    assert torch.equal(stepped(z, w, begun(w, z))[0], lags(z.double(), w.double()).round().float())


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["mixing", "each"])
@torch.no_grad()
def test_threads_do_not_show(kind: str) -> None:
    z, w = numbers(4, 100, 134).float(), drawn(kind, 40, 134).float()
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = stepped(z, w, begun(w, z))[0]
        torch.set_num_threads(3)
        assert torch.equal(stepped(z, w, begun(w, z))[0], one)
    finally:
        torch.set_num_threads(threads)


@every_kind
@torch.no_grad()
def test_number_types_of_lag_sum_online(way: str, kind: str) -> None:
    z, w = numbers(2, 60, 6), drawn(kind, 9)
    state = begun(w.bfloat16(), z)
    assert state["ahead"].dtype == torch.float32
    result, state = stepped(z.bfloat16(), w.bfloat16(), state)
    assert result.dtype == torch.bfloat16
    torch.testing.assert_close(result.double(), lags(z, w), rtol=0.05, atol=0.15)


def test_gradients_read_the_window(way: str) -> None:
    """Inputs that require gradients get them, and the state continues without a graph."""
    z, w = numbers(1, 50, 6), drawn("each", 13).requires_grad_()
    with torch.no_grad():
        _, state = stepped(z[:, :30], w, begun(w, z))
    y, state = advance(z[:, 30], w, state, reuse=False)
    (expected,) = torch.autograd.grad(lags(z[:, :31], w)[:, 30].sum(), w)
    torch.testing.assert_close(torch.autograd.grad(y.sum(), w)[0], expected, rtol=0, atol=1e-11)
    with torch.no_grad():
        rest = stepped(z[:, 31:], w, state)[0]
    torch.testing.assert_close(rest, lags(z, w)[:, 31:], rtol=0, atol=1e-11)


@pytest.mark.parametrize("pulls", ["gradients", "short"])
def test_where_the_window_was_read_nothing_is_paid_ahead(way: str, pulls: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even where the state was given up: later tokens are not read as if those had been added ahead."""
    z, w = numbers(2, 60, 6), drawn("each", 13).requires_grad_(pulls == "gradients")
    with torch.no_grad():
        _, state = stepped(z[:, :20], w, begun(w, z))
    with monkeypatch.context() as patch:
        if pulls == "short":
            patch.setattr(token, "supports", lambda *_: False)
            patch.setattr(online, "WINDOW_PRODUCTS", 1 << 30)
        y, state = stepped(z[:, 20:25], w, state)
    assert y.requires_grad == (pulls == "gradients")
    assert state["origin"].tolist() == [-1, -1]
    with torch.no_grad():
        rest = stepped(z[:, 25:], w, state)[0]
    torch.testing.assert_close(torch.cat([y, rest], 1), lags(z, w)[:, 20:], rtol=0, atol=1e-11)


def test_another_mixers_state_is_an_error() -> None:
    w, z = drawn("each", 9), numbers(2, 1, 6)
    with pytest.raises(ValueError, match="past must be"):
        advance(z[:, 0], w, begun(drawn("each", 8), z), reuse=True)


@pytest.mark.slow
@pytest.mark.parametrize("change", ["data", "optimizer", "in place"])
@torch.no_grad()
def test_spectra_are_of_the_taps_that_are(way: str, change: str) -> None:
    w, z = torch.nn.Parameter(drawn("mixing", 33)), numbers(1, 80, 6)
    stepped(z, w, begun(w, z))
    assert len(kept._kept) == 1, "nothing was kept"
    if change == "data":
        w.data[20] += 1.0
    elif change == "optimizer":
        w.grad = torch.ones_like(w)
        torch.optim.AdamW([w], lr=0.1, fused=True).step()
    else:
        w[1, 2, 3] = 7.0
    torch.testing.assert_close(stepped(z, w, begun(w, z))[0], lags(z, w), rtol=0, atol=1e-11)


@pytest.mark.slow
@torch.no_grad()
def test_spectra_take_no_more_than_their_room(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    z, both = numbers(1, 80, 6), [drawn("mixing", 33), drawn("grouped", 33)]
    for room in (0, 20_000, 1 << 30):
        kept.forget()
        monkeypatch.setattr(kept, "ROOM", room)
        for w in both:
            torch.testing.assert_close(stepped(z, w, begun(w, z))[0], lags(z, w), rtol=0, atol=1e-11)
        held = sum(each.bytes() for each in kept._kept.values())
        assert held <= room
        assert (held > 0) == (room > 0)
    del w
    both.clear()
    gc.collect()
    assert not kept._kept, "what was kept outlives its taps"


@pytest.mark.slow
@pytest.mark.parametrize("make", OURS, ids=str)
def test_the_contract_with_long_blocks(way: str, make: Make) -> None:
    for check in (
        check_state_is_kept,
        check_reuse_writes_only_into_what_was_given_up,
        check_state_size,
        check_fork_and_trim,
        check_pieces,
        check_step,
        check_keep_reading,
        check_rows,
    ):
        check(make)

"""The online lag sum: inputs arrive one by one, and later outputs are computed ahead, in O(log² L) per token, not O(L).

    y_n = z_n W_0 + ahead_n,        ahead_n = Σ_{0<k<L} z_{n-k} W_k, complete before z_n arrives

After token r of the schedule, the last U inputs are added to the next U outputs at once, by the taps 1 … 2U-1. U is the
largest power of two that divides r, but at most the smallest power of two that is not below L-1 (`blocks`). So every
input is added exactly once to every later output less than L away. Only earlier inputs are transformed, so later inputs
have no effect on an output.

Besides the window (see `window`) the state holds the ring `ahead` (B, L-1, D), with the output at time t at index t
(mod L-1), and `origin` (B,), the number of tokens that were read when the schedule began. `origin` is -1 where `ahead`
is not valid, as after a piece or a step without `reuse`; `ahead` is then computed from the window when it is needed.
Pieces, gradients, graphs and steps without `reuse` use the window only.

Source: for the schedule Fischer and Stockmeyer 1974 and van der Hoeven's relaxed multiplication 1997; for computing
ahead the paper, whose section 7 counts the critical path. To start the schedule at any token, in a ring that wraps, is
ours.
"""

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.ops.checked import check_shapes
from seqloom.ops.lag_sum import window
from seqloom.ops.lag_sum.online import token
from seqloom.ops.lag_sum.online.blocks import add, longest, open_blocks
from seqloom.ops.lag_sum.reference import product

WINDOW_PRODUCTS = 1 << 19
"""the number of products of a token from which on the schedule, if not in C, is faster than a sum over the window"""


def entries(L: int, dim: int) -> StateSpec:
    """The declaration of the state without `length`; sums are at least float32."""
    return {
        "past": StateEntry((L - 1, dim)),
        "ahead": StateEntry((L - 1, dim), "wide"),
        "origin": StateEntry((), "count"),
    }


def carry(
    z: Stream, w: Tensor, state: State | None, lengths: Lengths | None = None, reuse: bool = False
) -> tuple[Stream, Entries]:
    """The lag sum of z (B, T, D), and the state after it; without a `state` no state is computed.

    With `lengths` (B,) each row of z has that many tokens, then padding. With `reuse` one token is written in place.
    """
    if state is not None and z.shape[1] == 1 and lengths is None:
        y, entries = advance(z[:, 0], w, state, reuse)
        return y[:, None], entries
    y, entries = window.carry(z, w, state, "past", lengths)
    if state is None:
        return y, entries
    if lengths is None:
        ahead = torch.zeros_like(state["ahead"])
        origin = torch.full_like(state["origin"], -1)
    else:
        unchanged = lengths == 0
        ahead = torch.where(unchanged[:, None, None], state["ahead"], 0.0)
        origin = torch.where(unchanged, state["origin"], -1)
    return y, {**entries, "ahead": ahead, "origin": origin}


def advance(z: Token, w: Tensor, state: State, reuse: bool) -> tuple[Token, Entries]:
    """The lag sum at one more token z (B, D), and the state after it; with `reuse` the state is written in place.

    Raises ValueError where the state does not fit the taps.
    """
    past, ahead, origin, length = state["past"], state["ahead"], state["origin"], state["length"]
    in_place = reuse and not _is_observed(z, w)
    if in_place and token.supports(z, w, past, ahead, length, origin):
        y = _advance_in_c(z, w, state)
        return y, {"past": past, "ahead": ahead, "origin": origin}
    _require_fit(z, w, past, ahead, length, origin)
    if in_place and _schedule_pays(z, w):
        y = read(z, w, state)
        push(w, state)
    else:
        y, past = window.advance(z, w, past, length_of(state), reuse)
        ahead = ahead if reuse else torch.zeros_like(ahead)
        origin = origin.fill_(-1) if reuse else torch.full_like(origin, -1)
    return y, {"past": past, "ahead": ahead, "origin": origin}


@check_shapes("lag_sum", past="B L-1 D", ahead="B L-1 D")
def _require_fit(
    z: Token,
    w: Float[Tensor, "L D D"] | Float[Tensor, "L G D/G D/G"] | Float[Tensor, "L D"] | Float[Tensor, " L"],
    past: Float[Tensor, "B P D"],
    ahead: Float[Tensor, "B P D"],
    length: Int64[Tensor, " B"],
    origin: Int64[Tensor, " B"],
) -> None:
    """ValueError or TypeError unless taps and state fit."""


def _advance_in_c(z: Tensor, w: Tensor, state: State) -> Tensor:
    """`read` and `push` in one call of C."""
    y, has_longer_blocks = token.advance(z, w, *_rings(state), longest(len(w)))
    if y is None:
        _recompute_ahead(w, state)
        return _advance_in_c(z, w, state)
    if has_longer_blocks:
        _push_longer(w, state, token.LEAF[w.ndim])
    return y


def read(z: Token, w: Tensor, state: State) -> Token:
    """The output at z: z W_0 plus the sums that were computed ahead. Writes z into the state; `push` must follow."""
    past, ahead, length, origin = rings = _rings(state)
    if token.supports(z, w, *rings):
        y = token.read(z, w, *rings)
        if y is not None:
            return y
    if min(origin.tolist(), default=0) < 0:
        _recompute_ahead(w, state)
        return read(z, w, state)
    P, rows = past.shape[1], torch.arange(len(z), device=z.device)
    phase = length % P
    y = product(z, w[0].to(z.dtype)) + ahead[rows, phase].to(z.dtype)
    ahead[rows, phase] = 0.0
    past[rows, P - 1 - phase] = z.to(past.dtype)
    return y


def push(w: Tensor, state: State) -> None:
    """Adds the last inputs to later outputs, after `read` has returned an output and with the state of `read`."""
    rings = _rings(state)
    if not token.supports(rings[1], w, *rings):
        _push_longer(w, state, 0)
    elif token.push(w, *rings, longest(len(w))):
        _push_longer(w, state, token.LEAF[w.ndim])


def _push_longer(w: Tensor, state: State, leaf: int) -> None:
    """Adds the blocks longer than `leaf`, at once for all rows whose block has the same size."""
    past, ahead, length, origin = _rings(state)
    r = length + 1 - origin
    sizes = (r & -r).clamp(max=min(longest(len(w)), len(w) - 1))
    for size in {*sizes.tolist()}:
        if size > leaf:
            rows = (sizes == size).nonzero()[:, 0]
            add(w, past, ahead, rows, length[rows] + 1, size)


def _rings(state: State) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    return state["past"], state["ahead"], state["length"], state["origin"]


def _is_observed(z: Tensor, w: Tensor) -> bool:
    """Whether gradients are wanted or a graph is captured."""
    return torch.compiler.is_compiling() or (torch.is_grad_enabled() and (z.requires_grad or w.requires_grad))


def _schedule_pays(z: Tensor, w: Tensor) -> bool:
    """Whether, without C, a sum over the window takes longer than the small operations of the schedule.

    Never on a GPU, where the schedule would have to copy `origin` to the host.
    """
    return z.is_cpu and len(w) > 1 and len(z) * max(w.numel(), len(w) * z.shape[1]) >= WINDOW_PRODUCTS


def _recompute_ahead(w: Tensor, state: State) -> None:
    """Computes `ahead` from the window, in the rows where it is not valid.

    As the schedule would have left it from the first token on, or all at once where the window is full.
    """
    past, ahead, length, origin = _rings(state)
    P = past.shape[1]
    rows = (origin < 0).nonzero()[:, 0]
    counts = length[rows].tolist()
    ahead.index_fill_(0, rows, 0.0)
    if w.ndim < 3 and token.LEAF[w.ndim] >= P and token.supports(ahead, w, *_rings(state)):
        for row, count in zip(rows.tolist(), counts, strict=True):
            origin[row] = _fill_in_c(w, past[row : row + 1], ahead[row : row + 1], count)
        return
    if max(counts) >= P or len({*counts}) > 1:
        origin[rows] = length[rows]
        add(w, past, ahead, rows, length[rows], P)
        return
    origin[rows] = 0
    for end, size in open_blocks(counts[0]):
        add(w, past, ahead, rows, torch.full_like(rows, end), size, counts[0] - end)


def _fill_in_c(w: Tensor, past: Tensor, ahead: Tensor, count: int) -> int:
    """Computes the `ahead` (1, P, D) of a row that has read `count` tokens, which is 0 before; returns its `origin`.

    A block's outputs before `count` are added too, and taken back: no later output has their slots, since all outputs
    end before twice the largest power of two in `count`.
    """
    if count >= past.shape[1]:
        end = torch.tensor([count])
        token.push(w, past, ahead, end - 1, end, longest(len(w)))
        return count
    for last, size in open_blocks(count):
        newest = torch.tensor([last - 1])
        token.push(w, past, ahead, newest, newest + 1 - size, longest(len(w)))
        ahead[:, last:count] = 0.0
    return 0

"""The state of a biased average with a window: the tokens of the window in a ring, and the sum of all before them.

    state: k (B, L, K), v (B, L, D), sums (B, K, D/K + 1), peak (B, K), length (B,)

A token is added to the sum when it leaves the window, so the state has a constant size and no token is forgotten.
"""

import math

import torch

from seqloom.core.shapes import Lengths, Stream, Token
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.ops.biased_average import Bias, add_tokens, average
from seqloom.ops.biased_average.total import Key, Keys, Past, Total
from seqloom.ops.past import ring


def entries(window: int, keys: int, dim: int) -> StateSpec:
    """The declaration of the state; its sums are at least float32."""
    sums, peak = StateEntry((keys, dim // keys + 1), "wide"), StateEntry((keys,), "wide")
    return {"k": StateEntry((window, keys)), "v": StateEntry((window, dim)), "sums": sums, "peak": peak}


def recall(k: Keys, v: Stream, length: Lengths, count: int) -> Past:
    """The last `count` tokens of two rings in the order of time, with keys of -inf before the first."""
    time = length[:, None] - count + torch.arange(count, device=k.device)
    keys = ring.latest(k, length, count)
    return torch.where((time >= 0)[:, :, None], keys, -math.inf), ring.latest(v, length, count)


def carry(
    k: Keys, v: Stream, bias: Bias, state: State | None, lengths: Lengths | None = None, reuse: bool = False
) -> tuple[Stream, Entries]:
    """The averages for keys and values (B, T, …), and the state after them; without a `state` no state is computed.

    With `lengths` (B,) each row has that many tokens, then padding. With `reuse` one token is written in place.
    """
    if state is None:
        return average(k, v, bias), {}
    if k.shape[1] == 1 and lengths is None:
        y, entries = advance(k[:, 0], v[:, 0], bias, state, reuse)
        return y[:, None], entries
    length, L, T = state["length"], state["k"].shape[1], k.shape[1]
    total, count = Total(state["sums"], state["peak"]), ring.count_filled(L, length_of(state))
    past = tuple(x.to(v.dtype) for x in recall(state["k"], state["v"], length, count))
    y = average(k, v, bias, (past[0], past[1]), total)
    leaving = max(0, count + T - L)  # tokens that leave the window
    keys, values = (torch.cat([old, new], 1)[:, :leaving] for old, new in zip(past, (k, v), strict=True))
    if lengths is not None:
        leaves = torch.arange(leaving, device=k.device) < (count - L + lengths)[:, None]  # fewer in shorter rows
        keys = torch.where(leaves[:, :, None], keys, -math.inf)
    total = add_tokens(total, keys, values)
    rings = {name: ring.write(state[name], length, new, lengths) for name, new in (("k", k), ("v", v))}
    return y, {**rings, **total._asdict()}


def advance(k: Key, v: Token, bias: Bias, state: State, reuse: bool) -> tuple[Token, Entries]:
    """The average at one more token (B, K), (B, D), and the state after it; with `reuse` it is written in place."""
    length, L = state["length"], state["k"].shape[1]
    count = ring.count_filled(L, length_of(state))
    keys, values = (x.to(v.dtype) for x in recall(state["k"], state["v"], length, count))
    leaving = max(0, count + 1 - L)
    total = add_tokens(Total(state["sums"], state["peak"]), keys[:, :leaving], values[:, :leaving])
    y = average(k[:, None], v[:, None], bias, (keys[:, leaving:], values[:, leaving:]), total)[:, 0]
    total_entries = total._asdict()
    if reuse:
        rings = {name: ring.write_(state[name], length, new.detach()) for name, new in (("k", k), ("v", v))}
        total_entries = {name: state[name].copy_(new) for name, new in total_entries.items()}
    else:
        ones = torch.ones_like(length)
        rings = {name: ring.write(state[name], length, new[:, None], ones) for name, new in (("k", k), ("v", v))}
    return y, {**rings, **total_entries}

"""The decaying sum in C, by chunks (chunks.c): pairs inside a chunk, one matrix from each chunk to the next.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
Keys may have fewer heads than values; what the heads of values share is computed once. Where each channel of the keys
has its own decay, the sum is a delta rule that erases nothing (`delta_rule/delta.c`).
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.delta_rule import native as by_token
from seqloom.ops.kernel import Kernel, empty_for_none
from seqloom.ops.linear_decay import chunked, weighted

CHUNK = 64
"""tokens of a chunk, the same number as in the C code"""
READS = (
    "q(B T G*K, q_step) k(B T G*K, k_step) v(B T H*V, v_step) decay?(B T H) rounding?(B T H) weight?(B T H) skip?(H)"
)
MISFIT = "sizes do not belong together"
KERNEL = Kernel("linear_decay", Path(__file__).with_name("chunks.c"), least="threads G V")
SOURCE = KERNEL.source
FORWARD = KERNEL.function(
    "forward",
    "threads apart B T G H K V W",
    f"{READS} state?(B H K W)",
    makes="y(B T H*V) z?ones(B T H) new_state(B H K W) saved_states(B H chunks K NV lanes)",
    room="scratch(threads room)",
    fails=MISFIT,
)
BACKWARD = KERNEL.function(
    "backward",
    "threads apart B T G H K V W slots",
    f"{READS} saved_states(B H chunks K NV lanes) dy(B T H*V, dy_step) dz?(B T H) dstate(B H K W, written)",
    makes="dq(B T G*K) dk(B T G*K) dv(B T H*V) dg?decay(B T H) dweight?weight(B T H) dskip?skip(B T H)",
    room="dstates(B H slots K NV lanes) scratch(threads room)",
    fails=MISFIT,
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return KERNEL.available() and by_token.KERNEL.available()


def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.unavailable("native", SOURCE, by_token.SOURCE)


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    if g is not None and g.ndim == 4:
        return by_token.delta(q, k, v, None, None, g, state)
    y, _, new_state = sum_weighted(q, k, v, g, state)
    return y, new_state


def sum_weighted(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None = None,
    skip: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """y, z and the new state, with a weight (B, H, T) of each token and y + skip v, skip (H,); g (H,) or (B, H, T).

    z (B, H, T) is the output for a channel of ones, if the state has V + 1 columns; otherwise it is empty.
    """
    token_g = g[:, None].expand(v.shape[:3]) if g is not None and g.ndim == 1 else g
    rows = v.shape[:2]
    heads_are_rows = skip is None and q.shape[:2] == v.shape[:2] and q.is_contiguous() and k.is_contiguous()
    if heads_are_rows:  # then C reads q and k as they lie in memory, and of the rest there is less to copy
        by_row = (None if x is None else x.flatten(0, 1)[:, None] for x in (q, k, v, token_g, state, weight))
        q, k, v, token_g, state, weight = by_row  # type: ignore[assignment]  # what is not None stays so
    by_token = (None if x is None else x.transpose(1, 2) for x in (q, k, v, token_g))
    arguments = (*by_token, state, None if weight is None else weight.transpose(1, 2), skip)
    needs_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments)
    run: Any = forward if needs_grad or native.is_observed(q) or forward_ad._current_level >= 0 else _forward
    y, z, new_state, _ = run(*arguments)
    y, z = y.transpose(1, 2), z.transpose(1, 2) if z.ndim == 3 else z
    if heads_are_rows:
        y, z, new_state = (x[:, 0].unflatten(0, rows) if x.ndim > 1 else x for x in (y, z, new_state))
    return y, z, new_state


def _columns(v: Tensor, state: Tensor | None) -> int:
    """W, the columns of a state."""
    return v.shape[3] if state is None else state.shape[3]


def _sizes(q: Tensor, v: Tensor, W: int) -> dict[str, int]:
    """The integer arguments of the C functions. A row of W numbers takes NV blocks of 64 bytes.

    `apart` is whether C computes first all states, then all outputs: where too few heads would leave threads idle.
    """
    (B, T, G, K), (_, _, H, V), lanes = q.shape, v.shape, 64 // v.element_size()
    threads = native.threads(v.numel() * K)
    apart = B * G % threads > 0 and 4 * threads > B * G
    room = KERNEL.size("scratch", v.dtype, K, W)
    sizes = {"G": G, "H": H, "V": V, "K": K, "W": W, "chunks": -(-T // CHUNK), "NV": -(-W // lanes), "lanes": lanes}
    return {**sizes, "threads": threads, "apart": int(apart), "room": room}


def _decays(g: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """e^g, and the rounding error of a float32 e^g; None for a float64 one, whose error is negligible."""
    if g is None or g.dtype == torch.float64:
        return None if g is None else g.exp(), None
    exact = g.double().exp()
    decay = exact.to(g.dtype)
    return decay, (exact - decay).to(g.dtype)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """y (B, T, H, V), z (B, T, H) or (0,), S after the last token, and S before each chunk."""
    W = _columns(v, state)
    inputs = q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), weight, skip, state
    y, z, new_state, saved_states = FORWARD(*inputs, ones=v.shape[3] < W, **_sizes(q, v, W))
    return y.view(v.shape), *empty_for_none(v, z), new_state, saved_states


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
    saved_states: Tensor,
    dy: Tensor,
    dz: Tensor | None,
    dnew_state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, T, H, V), K, W = v.shape, q.shape[3], _columns(v, state)
    sizes = _sizes(q, v, W)
    dstate = v.new_zeros(B, H, K, W) if dnew_state is None else dnew_state.clone(memory_format=torch.contiguous_format)
    if W == V:
        dz = None
    elif dz is None:
        dz = v.new_zeros(B, T, H)
    slots = saved_states.shape[2] if sizes["apart"] else 1  # of gradients of states that are in memory at a time
    inputs = q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), weight, skip, saved_states, dy.flatten(2), dz
    dq, dk, dv, dg, dweight, dskip = BACKWARD(*inputs, dstate, slots=slots, **sizes)
    if dskip is not None:  # one part for each token
        dskip = dskip.sum((0, 1), dtype=torch.float64).to(v.dtype)
    dg, dweight, dskip = empty_for_none(q, dg, dweight, dskip)
    return dq.view(q.shape), dk.view(k.shape), dv.view(v.shape), dg, dstate, dweight, dskip


def _compute(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor]:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    g, weight = (None if x is None else x.transpose(1, 2) for x in (g, weight))
    heads_per_key = v.shape[1] // q.shape[1]
    ones = state is not None and state.shape[3] > v.shape[3]
    q, k = (x.repeat_interleave(heads_per_key, 1) if heads_per_key > 1 else x for x in (q, k))
    y, z, new_state = weighted.sum_weighted(chunked.decay, q, k, v, g, state, weight, skip, ones)
    return y.transpose(1, 2), v.new_empty(0) if z is None else z.transpose(1, 2), new_state


forward = KERNEL.operator("linear_decay", _forward, _backward, _compute, keep=(3,), results=3)

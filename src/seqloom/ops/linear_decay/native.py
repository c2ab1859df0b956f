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
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.delta_rule import native as by_token
from seqloom.ops.linear_decay import chunked, token, weighted
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("chunks.c")
CHUNK = 64
"""tokens of a chunk, the same number as in the C code"""
READS = (
    Argument("q", "B T G*K", step="q_step"),
    Argument("k", "B T G*K", step="k_step"),
    Argument("v", "B T H*V", step="v_step"),
    Argument("decay", "B T H", optional=True),
    Argument("rounding", "B T H", optional=True),
    Argument("weight", "B T H", optional=True),
    Argument("skip", "H", optional=True),
)
FORWARD = Entry(
    "linear_decay",
    SOURCE,
    "forward",
    "threads apart B T G H K V W q_step k_step v_step",
    *READS,
    Argument("state", "B H K W", optional=True),
    Argument("y", "B T H*V", written=True),
    Argument("z", "B T H", optional=True, written=True),
    Argument("new_state", "B H K W", written=True),
    Argument("saved_states", "B H chunks K NV lanes", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads G V",
)
BACKWARD = Entry(
    "linear_decay",
    SOURCE,
    "backward",
    "threads apart B T G H K V W slots q_step k_step v_step dy_step",
    *READS,
    Argument("saved_states", "B H chunks K NV lanes"),
    Argument("dy", "B T H*V", step="dy_step"),
    Argument("dz", "B T H", optional=True),
    Argument("dq", "B T G*K", written=True),
    Argument("dk", "B T G*K", written=True),
    Argument("dv", "B T H*V", written=True),
    Argument("dg", "B T H", optional=True, written=True),
    Argument("dweight", "B T H", optional=True, written=True),
    Argument("dskip", "B T H", optional=True, written=True),
    Argument("dstate", "B H K W", written=True),
    Argument("dstates", "B H slots K NV lanes", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads G V",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return all(native.library(source) is not None for source in (SOURCE, token.SOURCE)) and by_token.available()


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE, token.SOURCE, by_token.SOURCE)


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    if token.able(q, k, v, g, state):
        return token.token(q, k, v, g, state)
    if g is not None and g.ndim == 4:
        return by_token.delta(q, k, v, None, None, g, state)
    y, _, new_state = summed(q, k, v, g, state)
    return y, new_state


def summed(
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
    by_token_inputs = (None if x is None else x.transpose(1, 2) for x in (q, k, v, token_g))
    arguments = (*by_token_inputs, state, None if weight is None else weight.transpose(1, 2), skip)
    needs_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments)
    run: Any = forward if needs_grad or native.observed(q) or forward_ad._current_level >= 0 else _forward
    y, z, new_state, _ = run(*arguments)
    return y.transpose(1, 2), z.transpose(1, 2) if z.ndim == 3 else z, new_state


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
    sizes = {"G": G, "H": H, "V": V, "chunks": -(-T // CHUNK), "NV": -(-W // lanes), "lanes": lanes}
    return {**sizes, "threads": threads, "apart": int(apart)}


def _scratch(q: Tensor, v: Tensor, W: int, threads: int) -> Tensor:
    """Scratch memory for every thread."""
    return v.new_empty(threads, native.size("linear_decay", SOURCE, f"scratch_{native.WORD[v.dtype]}", q.shape[3], W))


def _saved_shape(q: Tensor, v: Tensor, W: int) -> tuple[int, ...]:
    """The shape of the states before each chunk, which forward saves for backward."""
    sizes = _sizes(q, v, W)
    return len(q), v.shape[2], sizes["chunks"], q.shape[3], sizes["NV"], sizes["lanes"]


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
    (B, T, H, V), K, W = v.shape, q.shape[3], _columns(v, state)
    sizes = _sizes(q, v, W)
    y, new_state, saved_states = v.new_empty(B, T, H, V), v.new_empty(B, H, K, W), v.new_empty(_saved_shape(q, v, W))
    z = v.new_empty(B, T, H) if W > V else None
    arguments = (q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), weight, skip, state)
    _checked(
        FORWARD(*arguments, y.flatten(2), z, new_state, saved_states, _scratch(q, v, W, sizes["threads"]), **sizes)
    )
    return y, v.new_empty(0) if z is None else z, new_state, saved_states


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
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    dg, dweight = (None if x is None else x.new_empty(x.shape) for x in (g, weight))
    dskip_by_token = None if skip is None else v.new_empty(B, T, H)
    dstate = v.new_zeros(B, H, K, W) if dnew_state is None else dnew_state.clone(memory_format=torch.contiguous_format)
    if W == V:
        dz = None
    elif dz is None:
        dz = v.new_zeros(B, T, H)
    slots = saved_states.shape[2] if sizes["apart"] else 1  # of gradients of states that are in memory at a time
    inputs = (q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), weight, skip, saved_states, dy.flatten(2), dz)
    gradients = (
        dq.flatten(2),
        dk.flatten(2),
        dv.flatten(2),
        dg,
        dweight,
        dskip_by_token,
        dstate,
        saved_states.new_empty(*saved_states.shape[:2], slots, *saved_states.shape[3:]),
    )
    _checked(BACKWARD(*inputs, *gradients, _scratch(q, v, W, sizes["threads"]), slots=slots, **sizes))
    dskip = None
    if dskip_by_token is not None and skip is not None:
        dskip = dskip_by_token.sum((0, 1), dtype=torch.float64).to(skip.dtype)
    dg, dweight, dskip = (q.new_empty(0) if x is None else x for x in (dg, dweight, dskip))
    return dq, dk, dv, dg, dstate, dweight, dskip


def _checked(error: int) -> None:
    if error:
        raise ValueError("linear_decay: sizes do not belong together")


def _shapes(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, *rest: Tensor | None
) -> list[tuple[int, ...]]:
    (B, T, H, V), K, W = v.shape, q.shape[3], _columns(v, state)
    return [(B, T, H, V), (B, T, H) if W > V else (0,), (B, H, K, W), _saved_shape(q, v, W)]


def _gradient_shapes(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    weight: Tensor | None,
    skip: Tensor | None,
    *rest: Tensor | None,
) -> list[tuple[int, ...]]:
    (B, _, H, _), K = v.shape, q.shape[3]
    optional = [(0,) if x is None else tuple(x.shape) for x in (g, weight, skip)]
    dstate = (B, H, K, _columns(v, state))
    return [tuple(q.shape), tuple(k.shape), tuple(v.shape), optional[0], dstate, *optional[1:]]


def _differentiable(*saved_and_grads: Tensor | None) -> list[Tensor | None]:
    """The gradients computed by torch's operations, so that they can be differentiated again."""
    arguments, (dy, dz, dnew_state) = saved_and_grads[:7], saved_and_grads[8:]  # between them are the saved states

    def compute(*inputs: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v, g, weight = (None if x is None else x.transpose(1, 2) for x in (*inputs[:4], inputs[5]))
        state, skip = inputs[4], inputs[6]
        assert q is not None
        assert k is not None
        assert v is not None
        heads_per_key = v.shape[1] // q.shape[1]
        ones = state is not None and state.shape[3] > v.shape[3]
        q, k = (x.repeat_interleave(heads_per_key, 1) if heads_per_key > 1 else x for x in (q, k))
        y, z, new_state = weighted.summed(chunked.decay, q, k, v, g, state, weight, skip, ones)
        return y.transpose(1, 2), v.new_empty(0) if z is None else z.transpose(1, 2), new_state

    return differentiate(compute, arguments, (dy, dz if dz is not None and dz.numel() else None, dnew_state))


forward = paired(
    "linear_decay",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs, outputs[3]),
    differentiable=_differentiable,
    results=3,
)

"""The decaying sum in C, by chunks (chunks.c): pairs inside a chunk, one matrix from each chunk to the next.

Two operators of torch, so that a compiled model holds them as they are. The numbers do not depend on how many threads
there are. Keys may have fewer heads than values; what these share is computed once. Where each channel of the keys
decays apart, the sum is the delta rule of a token that erases nothing (`delta_rule/delta.c`).
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
from seqloom.ops.linear_decay import chunked, token
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("chunks.c")
CHUNK = 64
"""tokens of a chunk, as the C has it"""
READS = (
    Argument("q", "B T G*K", step="q_step"),
    Argument("k", "B T G*K", step="k_step"),
    Argument("v", "B T H*V", step="v_step"),
    Argument("decay", "B T H", optional=True),
    Argument("rest", "B T H", optional=True),
)
FORWARD = Entry(
    "linear_decay",
    SOURCE,
    "forward",
    "threads B T G H K V NV q_step k_step v_step",
    *READS,
    Argument("state", "B H K V", optional=True),
    Argument("y", "B T H*V", written=True),
    Argument("after", "B H K V", written=True),
    Argument("marks", "B H chunks K NV lanes", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads G V",
)
BACKWARD = Entry(
    "linear_decay",
    SOURCE,
    "backward",
    "threads B T G H K V NV q_step k_step v_step dy_step",
    *READS,
    Argument("marks", "B H chunks K NV lanes"),
    Argument("dy", "B T H*V", step="dy_step"),
    Argument("dq", "B T G*K", written=True),
    Argument("dk", "B T G*K", written=True),
    Argument("dv", "B T H*V", written=True),
    Argument("dg", "B T H", optional=True, written=True),
    Argument("dstate", "B H K V", written=True),
    Argument("reached", "B H chunks K NV lanes", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads G V",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return all(native.library(source) is not None for source in (SOURCE, token.SOURCE)) and by_token.available()


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE, token.SOURCE, by_token.SOURCE)


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    if token.able(q, k, v, g, state):
        return token.token(q, k, v, g, state)
    if g is not None and g.ndim == 4:
        return by_token.delta(q, k, v, None, None, g, state)
    rates = g[:, None].expand(v.shape[:3]) if g is not None and g.ndim == 1 else g
    given = (*(x.transpose(1, 2) for x in (q, k, v)), None if rates is None else rates.transpose(1, 2), state)
    learns = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)
    run: Any = forward if learns or native.watched(q) or forward_ad._current_level >= 0 else _forward
    y, after, _ = run(*given)
    return y.transpose(1, 2), after


def _sizes(q: Tensor, v: Tensor) -> dict[str, int]:
    """The numbers that no tensor tells. Rows of V numbers are filled up to NV blocks of 64 bytes."""
    (_, T, G, K), (_, _, H, V), lanes = q.shape, v.shape, 64 // v.element_size()
    threads = native.threads(v.numel() * K)
    return {"G": G, "H": H, "chunks": -(-T // CHUNK), "NV": -(-V // lanes), "lanes": lanes, "threads": threads}


def _scratch(q: Tensor, v: Tensor, sizes: dict[str, int]) -> Tensor:
    """What each thread works in."""
    room = native.size("linear_decay", SOURCE, f"scratch_{native.WORD[v.dtype]}", q.shape[3], v.shape[3], sizes["NV"])
    return v.new_empty(sizes["threads"], room)


def _marks(q: Tensor, v: Tensor) -> tuple[int, ...]:
    sizes = _sizes(q, v)
    return len(q), v.shape[2], sizes["chunks"], q.shape[3], sizes["NV"], sizes["lanes"]


def _decays(g: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
    """e^g, and what rounding it to float32 took from it, which makes no difference to float64."""
    if g is None or g.dtype == torch.float64:
        return None if g is None else g.exp(), None
    exact = g.double().exp()
    decay = exact.to(g.dtype)
    return decay, (exact - decay).to(g.dtype)


def _forward(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """y (B, T, H, V), S after the last token, and S before each chunk."""
    (B, T, H, V), K, sizes = v.shape, q.shape[3], _sizes(q, v)
    y, after, marks = v.new_empty(B, T, H, V), v.new_empty(B, H, K, V), v.new_empty(_marks(q, v))
    given = (q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), state)
    FORWARD(*given, y.flatten(2), after, marks, _scratch(q, v, sizes), **sizes)
    return y, after, marks


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor | None,
    state: Tensor | None,
    marks: Tensor,
    dy: Tensor,
    dafter: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, _, H, V), K, sizes = v.shape, q.shape[3], _sizes(q, v)
    dq, dk, dv = (x.new_empty(x.shape) for x in (q, k, v))
    dg = None if g is None else g.new_empty(g.shape)
    dstate = v.new_zeros(B, H, K, V) if dafter is None else dafter.clone(memory_format=torch.contiguous_format)
    given = (q.flatten(2), k.flatten(2), v.flatten(2), *_decays(g), marks, dy.flatten(2))
    made = (dq.flatten(2), dk.flatten(2), dv.flatten(2), dg, dstate, torch.empty_like(marks))
    BACKWARD(*given, *made, _scratch(q, v, sizes), **sizes)
    return dq, dk, dv, q.new_empty(0) if dg is None else dg, dstate


def _shapes(q: Tensor, k: Tensor, v: Tensor, *rest: Tensor | None) -> list[tuple[int, ...]]:
    (B, T, H, V), K = v.shape, q.shape[3]
    return [(B, T, H, V), (B, H, K, V), _marks(q, v)]


def _gradient_shapes(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, *rest: Tensor | None) -> list[tuple[int, ...]]:
    (B, _, H, V), K = v.shape, q.shape[3]
    return [tuple(q.shape), tuple(k.shape), tuple(v.shape), (0,) if g is None else tuple(g.shape), (B, H, K, V)]


def _again(*of: Tensor | None) -> list[Tensor | None]:
    """The gradients by torch's own operations, which can be differentiated again."""
    given, (dy, dafter) = of[:5], of[6:]

    def compute(*inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v, g = (None if x is None else x.transpose(1, 2) for x in inputs[:4])
        assert q is not None
        assert k is not None
        assert v is not None
        served = v.shape[1] // q.shape[1]
        q, k = (x.repeat_interleave(served, 1) if served > 1 else x for x in (q, k))
        y, after = chunked.decay(q, k, v, g, inputs[4])
        return y.transpose(1, 2), after

    return differentiate(compute, given, (dy, dafter))


forward = paired(
    "linear_decay",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs, outputs[2]),
    again=_again,
    results=2,
)

"""The delta rule in C (delta.c): token by token, with the state of a head in the cache, threads over rows and heads.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
Forward saves every 32nd state, from which backward recomputes the states between.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, differentiate, paired
from seqloom.ops.delta_rule import reference
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("delta.c")
CHUNK = 32
"""tokens between two states that are saved for backward, the same number as in the C code"""
READS = (
    Argument("q", "B T H K"),
    Argument("k", "B T H K"),
    Argument("v", "B T H V"),
    Argument("erase", "B T H K", optional=True),
    Argument("write", "B T H K", optional=True),
    Argument("decay", "B T H G", optional=True),
    Argument("decay_minus_1", "B T H G", optional=True),
)
FORWARD = Entry(
    "delta_rule",
    SOURCE,
    "forward",
    "threads G B T H K V NV room",
    *READS,
    Argument("state", "B H K V", optional=True),
    Argument("y", "B T H V", written=True),
    Argument("u", "B T H V", optional=True, written=True),
    Argument("new_state", "B H K V", written=True),
    Argument("saved_states", "B H chunks K NV lanes", optional=True, written=True),
    Argument("scratch", "B H room lanes", written=True),
    least="threads",
)
BACKWARD = Entry(
    "delta_rule",
    SOURCE,
    "backward",
    "threads G B T H K V NV room",
    *READS,
    Argument("u", "B T H V", optional=True),
    Argument("saved_states", "B H chunks K NV lanes"),
    Argument("dy", "B T H V"),
    Argument("dq", "B T H K", written=True),
    Argument("dk", "B T H K", written=True),
    Argument("dv", "B T H V", written=True),
    Argument("derase", "B T H K", optional=True, written=True),
    Argument("dwrite", "B T H K", optional=True, written=True),
    Argument("dg", "B T H G", optional=True, written=True),
    Argument("dstate", "B H K V", written=True),
    Argument("scratch", "B H room lanes", written=True),
    least="threads",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def delta(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """As `reference.delta`, in float32 or float64; `erase` None is 0. ValueError where there is no native code."""
    by_token = [None if x is None else x.transpose(1, 2) for x in (q, k, v, erase, write)]
    decay = None if g is None else g.transpose(1, 2) if g.ndim == 4 else g.transpose(1, 2)[..., None]
    arguments = (*by_token, decay, state)
    needs_grad = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments)
    if needs_grad or native.observed(q) or forward_ad._current_level >= 0:
        y, new_state, _, _ = forward(*arguments)
    else:
        y, new_state, _ = _run(arguments, None)
    return y.transpose(1, 2), new_state


def _sizes(v: Tensor, K: int, decay: Tensor | None) -> dict[str, int]:
    """The sizes that do not follow from the tensors. Rows of V numbers are padded to NV vectors of 64 bytes."""
    _, T, _, V = v.shape
    lanes = 64 // v.element_size()
    G = 0 if decay is None else decay.shape[3]
    return {"G": G, "chunks": -(-T // CHUNK), "NV": -(-V // lanes), "lanes": lanes, "threads": _threads(v, K)}


def _threads(v: Tensor, K: int) -> int:
    return native.threads(v.numel() * K)


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    saved_states = v.new_empty(_saved_shape(v, q.shape[3]))
    y, new_state, u = _run((q, k, v, erase, write, g, state), saved_states)
    return y, new_state, v.new_empty(0) if u is None else u, saved_states


def _saved_shape(v: Tensor, K: int) -> tuple[int, ...]:
    sizes = _sizes(v, K, None)
    return v.shape[0], v.shape[2], sizes["chunks"], K, sizes["NV"], sizes["lanes"]


def _run(arguments: tuple[Any, ...], saved_states: Tensor | None) -> tuple[Tensor, Tensor, Tensor | None]:
    """y, the state after the last token, and u, what each token erases; writes `saved_states` unless it is None."""
    q, k, v, erase, write, g, state = arguments
    (B, _, H, K), V = q.shape, v.shape[3]
    decay, decay_minus_1 = (None, None) if g is None else (g.exp(), g.expm1())
    sizes = _sizes(v, K, decay)
    y, new_state = v.new_empty(v.shape), v.new_empty(B, H, K, V)
    u = None if erase is None else v.new_empty(v.shape)
    room = (K + 3) * sizes["NV"] + -(-2 * sizes["G"] // sizes["lanes"])
    scratch = v.new_empty(B, H, room, sizes["lanes"])
    FORWARD(
        q, k, v, erase, write, decay, decay_minus_1, state, y, u, new_state, saved_states, scratch, room=room, **sizes
    )
    return y, new_state, u


def _backward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
    u: Tensor,
    saved_states: Tensor,
    dy: Tensor,
    dnew_state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, _, H, K), V = q.shape, v.shape[3]
    dq, dk, dv = (_like(x) for x in (q, k, v))
    derase, dwrite, dg = (None if x is None else _like(x) for x in (erase, write, g))
    dstate = v.new_zeros(B, H, K, V) if dnew_state is None else dnew_state.clone(memory_format=torch.contiguous_format)
    decay, decay_minus_1 = (None, None) if g is None else (g.exp(), g.expm1())
    sizes = _sizes(v, K, decay)
    room = ((CHUNK + 1) * K + 6) * sizes["NV"] + -(-(K + 2 * sizes["G"]) // sizes["lanes"])
    scratch = v.new_empty(B, H, room, sizes["lanes"])
    inputs = (q, k, v, erase, write, decay, decay_minus_1, None if erase is None else u, saved_states, dy)
    BACKWARD(*inputs, dq, dk, dv, derase, dwrite, dg, dstate, scratch, room=room, **sizes)
    derase, dwrite, dg = (q.new_empty(0) if x is None else x for x in (derase, dwrite, dg))
    return dq, dk, dv, derase, dwrite, dg, dstate


def _shapes(q: Tensor, k: Tensor, v: Tensor, erase: Tensor | None, *rest: Tensor | None) -> list[tuple[int, ...]]:
    (B, T, H, K), V = q.shape, v.shape[3]
    return [(B, T, H, V), (B, H, K, V), (0,) if erase is None else (B, T, H, V), _saved_shape(v, K)]


def _gradient_shapes(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor | None, write: Tensor | None, g: Tensor | None, *rest: Tensor | None
) -> list[tuple[int, ...]]:
    (B, _, H, K), V = q.shape, v.shape[3]
    optional = [(0,) if x is None else tuple(x.shape) for x in (erase, write, g)]
    return [tuple(q.shape), tuple(k.shape), tuple(v.shape), *optional, (B, H, K, V)]


def _differentiable(*saved_and_grads: Tensor | None) -> list[Tensor | None]:
    """The gradients computed by torch's operations, so that they can be differentiated again."""
    arguments, (dy, dnew_state) = saved_and_grads[:7], saved_and_grads[9:]  # between them are u and the saved states

    def compute(*inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        q, k, v, erase, write, g = (None if x is None else x.transpose(1, 2) for x in inputs[:6])
        y, new_state = reference.delta(q, k, v, erase, write, g, inputs[6])  # type: ignore[arg-type]  # not q, k and v
        return y.transpose(1, 2), new_state

    return differentiate(compute, arguments, (dy, dnew_state))


forward: Operator = paired(
    "delta_rule",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs, outputs[2], outputs[3]),
    differentiable=_differentiable,
    results=2,
)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)

"""The delta rule in C (delta.c): token by token, with the state of a head in the cache, threads over rows and heads.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
Forward saves every 32nd state, from which backward recomputes the states between.
"""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.ops import native
from seqloom.ops.delta_rule import reference
from seqloom.ops.kernel import Kernel, empty_for_none

CHUNK = 32
"""tokens between two states that are saved for backward, the same number as in the C code"""
NUMBERS = "threads G B T H K V NV room"
READS = "q(B T H K) k(B T H K) v(B T H V) erase?(B T H K) write?(B T H K) decay?(B T H G) decay_minus_1?(B T H G)"
KERNEL = Kernel("delta_rule", Path(__file__).with_name("delta.c"))
SOURCE = KERNEL.source
FORWARD = KERNEL.function(
    "forward",
    NUMBERS,
    f"{READS} state?(B H K V)",
    makes="y(B T H V) u?erase(B T H V) new_state(B H K V) saved_states?learns(B H chunks K NV lanes)",
    room="scratch(B H room lanes)",
)
BACKWARD = KERNEL.function(
    "backward",
    NUMBERS,
    f"{READS} u?(B T H V) saved_states(B H chunks K NV lanes) dy(B T H V) dstate(B H K V, written)",
    makes="dq(B T H K) dk(B T H K) dv(B T H V) derase?erase(B T H K) dwrite?write(B T H K) dg?decay(B T H G)",
    room="scratch(B H room lanes)",
)


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
    if needs_grad or native.is_observed(q) or forward_ad._current_level >= 0:
        y, new_state, _, _ = forward(*arguments)
    else:
        y, _, new_state, _ = _run(arguments, learns=False)
    return y.transpose(1, 2), new_state


def _sizes(v: Tensor, K: int, decay: Tensor | None) -> dict[str, int]:
    """The sizes that do not follow from the tensors. Rows of V numbers are padded to NV vectors of 64 bytes."""
    _, T, _, V = v.shape
    lanes = 64 // v.element_size()
    G = 0 if decay is None else decay.shape[3]
    sizes = {"G": G, "chunks": -(-T // CHUNK), "NV": -(-V // lanes), "lanes": lanes}
    return {**sizes, "threads": native.threads(v.numel() * K)}


def _run(arguments: tuple[Any, ...], learns: bool) -> tuple[Tensor, Tensor | None, Tensor, Tensor | None]:
    """y, u, what each token erases, the state after the last token, and states for backward, if it `learns`."""
    q, k, v, erase, write, g, state = arguments
    K = q.shape[3]
    decay, decay_minus_1 = (None, None) if g is None else (g.exp(), g.expm1())
    sizes = _sizes(v, K, decay)
    room = (K + 3) * sizes["NV"] + -(-2 * sizes["G"] // sizes["lanes"])
    inputs = q, k, v, erase, write, decay, decay_minus_1, state
    made: tuple[Tensor, Tensor | None, Tensor, Tensor | None] = FORWARD(*inputs, learns=learns, room=room, **sizes)
    return made


def _forward(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    y, u, new_state, saved_states = _run((q, k, v, erase, write, g, state), learns=True)
    u, saved_states = empty_for_none(v, u, saved_states)
    return y, new_state, u, saved_states


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
    dstate = v.new_zeros(B, H, K, V) if dnew_state is None else dnew_state.clone(memory_format=torch.contiguous_format)
    decay, decay_minus_1 = (None, None) if g is None else (g.exp(), g.expm1())
    sizes = _sizes(v, K, decay)
    room = ((CHUNK + 1) * K + 6) * sizes["NV"] + -(-(K + 2 * sizes["G"]) // sizes["lanes"])
    inputs = q, k, v, erase, write, decay, decay_minus_1, None if erase is None else u, saved_states, dy, dstate
    dq, dk, dv, *optional = BACKWARD(*inputs, room=room, **sizes)
    return dq, dk, dv, *empty_for_none(q, *optional), dstate


def _compute(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    erase: Tensor | None,
    write: Tensor | None,
    g: Tensor | None,
    state: Tensor | None,
) -> tuple[Tensor, Tensor]:
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    erase, write, g = (None if x is None else x.transpose(1, 2) for x in (erase, write, g))
    y, new_state = reference.delta(q, k, v, erase, write, g, state)
    return y.transpose(1, 2), new_state


forward = KERNEL.operator("delta_rule", _forward, _backward, _compute, keep=(2, 3), results=2)

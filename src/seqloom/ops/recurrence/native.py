"""The cells' loops over tokens in C (cells.c): the matrix is read once per token for a few rows, threads over rows.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
The gradients of the weights are products over all tokens, outside of C. Second derivatives are taken through the
reference.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.fused.projection import project
from seqloom.ops.kernel import Kernel, empty_for_none
from seqloom.ops.recurrence.loops import LOOPS, Tensors
from seqloom.ops.recurrence.reference import CELLS, state_after

NUMBERS = {"elman": 0, "lstm": 1, "gru": 2, "gru_after": 3}
"""of the cells in C"""
ROWS_OF_TASK = 4
"""the same number as in the C code"""
ROOM = "matrix(numbers) scratch(threads room)"
KERNEL = Kernel("recurrence", Path(__file__).with_name("cells.c"))
FORWARD = KERNEL.function(
    "forward",
    "threads cell T B N",
    "a(T B gates, written) w(gates N) inner?(N) h(T+1 B N, written) c?(T+1 B N, written)",
    makes="saved?cell(T B N)",
    room=ROOM,
)
BACKWARD = KERNEL.function(
    "backward",
    "threads cell T B N",
    "w(gates N) gates?(T B gates) h(T+1 B N) c?(T+1 B N) saved?(T B N) dh(T+1 B N) dc?(T+1 B N)",
    makes="da(T B gates) dh_first(B N) dc_first?dc(B N)",
    room=ROOM,
)


def read(
    cell: str,
    x: Tensor,
    w_in: Tensor,
    bias: Tensor,
    weights: Tensors,
    state: Tensors,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensors]:
    """See `reference.read`."""
    a = project(x.transpose(0, 1).contiguous(), w_in, bias)
    states = forward(a, *_pair(weights), *_pair(state), cell)[: len(state)]
    by_row = [tensor.transpose(0, 1) for tensor in states]  # (B, T+1, N)
    return by_row[0][:, 1:], tuple(state_after(tensor, lengths) for tensor in by_row)


def _pair(tensors: Tensors) -> tuple[Tensor, Tensor | None]:
    """The first and the second tensor, if there is one: W and the bias inside the cell, or h and c."""
    return tensors[0], tensors[1] if len(tensors) == 2 else None


def _forward(
    a: Tensor, w: Tensor, inner: Tensor | None, h: Tensor, c: Tensor | None, cell: str
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """All h and c (T+1, B, N), and the gates and numbers that `_backward` reads; a = x W_in + b (T, B, G)."""
    all_h, all_c = (
        None if initial is None else torch.cat([initial[None], initial.new_empty(len(a), *initial.shape)])
        for initial in (h, c)
    )
    assert all_h is not None
    gates = a.clone(memory_format=torch.contiguous_format)
    saved = FORWARD(gates, w.contiguous(), inner, all_h, all_c, **_sizes(cell, all_h, w))
    returned_c, returned_gates, returned_saved = empty_for_none(a, all_c, None if saved is None else gates, saved)
    return all_h, returned_c, returned_gates, returned_saved


def _backward(
    a: Tensor,
    w: Tensor,
    inner: Tensor | None,
    h0: Tensor,
    c0: Tensor | None,
    cell: str,
    h: Tensor,
    c: Tensor,
    gates: Tensor,
    saved: Tensor,
    h_grads: Tensor,
    c_grads: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a, w, the inner bias and the first state, from those of all h and c."""
    states = (h,) if c0 is None else (h, c)
    has_gates = gates.numel() > 0
    dh, dc = h_grads.contiguous(), None
    if c0 is not None:
        dc = torch.zeros_like(c) if c_grads is None else c_grads.contiguous()
    inputs = (gates if has_gates else None, h, None if c0 is None else c, saved if has_gates else None)
    da, dh0, dc0 = BACKWARD(w.contiguous(), *inputs, dh, dc, **_sizes(cell, h, w))
    dw, *dinner = LOOPS[cell].weight_grads(states, (gates, saved), da)
    return da, dw, *empty_for_none(a, dinner[0] if dinner else None), dh0, *empty_for_none(a, dc0)


def _compute(a: Tensor, w: Tensor, inner: Tensor | None, h: Tensor, c: Tensor | None, cell: str) -> tuple[Tensor, ...]:
    weights = (w,) if inner is None else (w, inner)
    states: list[Tensors] = [(h,) if c is None else (h, c)]
    for a_t in a.unbind(0):
        states.append(CELLS[cell](a_t, *weights, *states[-1]))
    each_h, *each_c = zip(*states, strict=True)
    return torch.stack(each_h), *empty_for_none(a, torch.stack(each_c[0]) if each_c else None)


def _sizes(cell: str, h: Tensor, w: Tensor) -> dict[str, int]:
    """The sizes that do not follow from the tensors, for h (T+1, B, N) and w (gates, N)."""
    (times, B, N), gates, number = h.shape, len(w), NUMBERS[cell]
    tasks = -(-B // ROWS_OF_TASK)
    threads = min(tasks, native.threads((times - 1) * B * gates**2))
    numbers, room = (KERNEL.size(name, h.dtype, number, N) for name in ("matrix", "room_size"))
    return {"threads": threads, "cell": number, "T": times - 1, "gates": gates, "numbers": numbers, "room": room}


forward = KERNEL.operator("recurrence", _forward, _backward, _compute, keep=(0, 1, 2, 3), results=2)

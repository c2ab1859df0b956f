"""The cells' loops over tokens in C (cells.c): the matrix is read once per token for a few rows, threads over rows.

Results do not depend on the number of threads. What is not a loop is as in `looped`.
"""

from functools import partial
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import Kernel
from seqloom.ops.recurrence import looped
from seqloom.ops.recurrence.loops import LOOPS, Tensors

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


@final
class NativeLoop:
    """A cell whose loops are in C."""

    def __init__(self, cell: str) -> None:
        self.cell, self.weight_grads = cell, LOOPS[cell].weight_grads

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """See `loops.Loop`."""
        w, inner = weights if len(weights) == 2 else (weights[0], None)
        states = [torch.cat([tensor[None], tensor.new_empty(len(a), *tensor.shape)]) for tensor in state]
        h, c = states if len(states) == 2 else (states[0], None)
        saved = FORWARD(a, w.contiguous(), inner, h, c, **self._sizes(h, w))
        return tuple(states), () if saved is None else (a, saved)

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `loops.Loop`."""
        h, c = states if len(states) == 2 else (states[0], None)
        gates, stored = saved or (None, None)
        dh, dc = [grad.contiguous() for grad in grads] if c is not None else (grads[0].contiguous(), None)
        w = weights[0].contiguous()
        da, dh_first, dc_first = BACKWARD(w, gates, h, c, stored, dh, dc, **self._sizes(h, w))
        return da, (dh_first,) if dc_first is None else (dh_first, dc_first)

    def _sizes(self, h: Tensor, w: Tensor) -> dict[str, int]:
        """The sizes that do not follow from the tensors, for h (T+1, B, N) and w (gates, N)."""
        (times, B, N), gates, cell = h.shape, len(w), NUMBERS[self.cell]
        tasks = -(-B // ROWS_OF_TASK)
        threads = min(tasks, native.threads((times - 1) * B * gates**2))
        numbers, room = (KERNEL.size(name, h.dtype, cell, N) for name in ("matrix", "room_size"))
        return {"threads": threads, "cell": cell, "T": times - 1, "gates": gates, "numbers": numbers, "room": room}


read = partial(looped.read, loops={cell: NativeLoop(cell) for cell in NUMBERS})

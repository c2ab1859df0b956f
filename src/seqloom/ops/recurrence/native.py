"""The cells' loops over tokens in C (cells.c): the matrix is read once per token for a few rows, threads over rows.

Results do not depend on the number of threads. What is not a loop is as in `looped`.
"""

from functools import partial
from pathlib import Path
from typing import final

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.native import Argument, Entry
from seqloom.ops.recurrence import looped
from seqloom.ops.recurrence.loops import LOOPS, Tensors

SOURCE = Path(__file__).with_name("cells.c")
NUMBERS = {"elman": 0, "lstm": 1, "gru": 2, "gru_after": 3}
"""of the cells in C"""
ROWS_OF_TASK = 4
"""the same number as in the C code"""
ROOM = (Argument("matrix", "numbers", written=True), Argument("scratch", "threads room", written=True))
FORWARD = Entry(
    "recurrence",
    SOURCE,
    "forward",
    "threads cell T B N",
    Argument("a", "T B gates", written=True),
    Argument("w", "gates N"),
    Argument("inner", "N", optional=True),
    Argument("h", "T+1 B N", written=True),
    Argument("c", "T+1 B N", optional=True, written=True),
    Argument("saved", "T B N", optional=True, written=True),
    *ROOM,
    least="threads",
)
BACKWARD = Entry(
    "recurrence",
    SOURCE,
    "backward",
    "threads cell T B N",
    Argument("w", "gates N"),
    Argument("gates", "T B gates", optional=True),
    Argument("h", "T+1 B N"),
    Argument("c", "T+1 B N", optional=True),
    Argument("saved", "T B N", optional=True),
    Argument("dh", "T+1 B N"),
    Argument("dc", "T+1 B N", optional=True),
    Argument("da", "T B gates", written=True),
    Argument("dh_first", "B N", written=True),
    Argument("dc_first", "B N", optional=True, written=True),
    *ROOM,
    least="threads",
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
        saved = None if self.cell == "elman" else torch.empty_like(h[1:])
        sizes = self._sizes(a)
        FORWARD(a, w.contiguous(), inner, h, c, saved, *self._room(h, **sizes), **sizes)
        return tuple(states), () if saved is None else (a, saved)

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `loops.Loop`."""
        h, c = states if len(states) == 2 else (states[0], None)
        gates, stored = saved or (None, None)
        dh, dc = [grad.contiguous() for grad in grads] if c is not None else (grads[0].contiguous(), None)
        w = weights[0].contiguous()
        da = h.new_empty(len(h) - 1, h.shape[1], len(w))
        first = [torch.empty_like(grad[0]) for grad in (dh, dc) if grad is not None]
        dh_first, dc_first = first if len(first) == 2 else (first[0], None)
        sizes = self._sizes(da)
        room = self._room(h, **sizes)
        BACKWARD(w, gates, h, c, stored, dh, dc, da, dh_first, dc_first, *room, **sizes)
        return da, tuple(first)

    def _sizes(self, a: Tensor) -> dict[str, int]:
        products = a.numel() * a.shape[2]
        tasks = -(-a.shape[1] // ROWS_OF_TASK)
        return {"threads": min(tasks, native.threads(products)), "cell": NUMBERS[self.cell]}

    def _room(self, h: Tensor, threads: int, cell: int) -> Tensors:
        """Scratch memory for the matrix, and for every thread."""
        word, N = native.WORD[h.dtype], h.shape[2]
        matrix = native.size("recurrence", SOURCE, f"matrix_{word}", cell, N)
        room = native.size("recurrence", SOURCE, f"room_size_{word}", cell, N)
        return h.new_empty(matrix), h.new_empty(threads, room)


read = partial(looped.read, loops={cell: NativeLoop(cell) for cell in NUMBERS})


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)

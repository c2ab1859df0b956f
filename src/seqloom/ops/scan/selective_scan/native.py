"""The scan in C (scan.c): many channels at once, threads over rows and blocks of channels.

They are two operators of torch, which a compiled model calls unchanged. Forward saves the state before every
32 tokens, and backward recomputes the states between them. Results do not depend on the number of threads.
"""

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import empty_for_none
from seqloom.ops.scan.selective_scan.inputs import Scan
from seqloom.ops.scan.selective_scan.kernels import (
    BACKWARD,
    BLOCK,
    BYTES,
    CHUNK,
    FORWARD,
)
from seqloom.ops.scan.selective_scan.operator import operator, selective_by


def _forward(scan: Scan, learns: bool) -> tuple[Tensor, Tensor, Tensor]:
    """y (B, T, D), the state after the last token (B, D, N), and, if it `learns`, the saved states for `_backward`.

    See `Scan`; float32 or float64. Raises ValueError where there is no native code.
    """
    u, N, layout = scan.u, scan.log_rate.shape[1], _layout(scan.u)
    inputs = scan._replace(lengths=None if scan.lengths is None else scan.lengths.long())
    sizes = {"threads": native.threads(u.numel() * N), "width": 2 * BLOCK * N * layout["lanes"], **layout}
    y, new_state, marks = FORWARD(*inputs, learns=learns, **sizes)
    return y, new_state, *empty_for_none(u, marks)


def _backward(scan: Scan, marks: Tensor, dy: Tensor, dnew_state: Tensor | None) -> tuple[Tensor, ...]:
    """Gradients of u, delta, log_rate, b, c, the state, bias, skip and gate."""
    u, log_rate, gate, lengths = scan.u, scan.log_rate, scan.gate, scan.lengths
    (B, T, D), N, layout = u.shape, log_rate.shape[1], _layout(u)
    blocks = -(-layout["vectors"] // BLOCK)
    du, ddelta = u.new_empty(B, T, D), u.new_empty(B, T, D)
    dgate = None if gate is None else u.new_empty(B, T, D)
    db, dc = (u.new_empty(B, T, N) for _ in range(2))
    db_parts, dc_parts = u.new_empty(2, blocks, B, T, N) if blocks > 1 else (db[None], dc[None])
    dstate = u.new_zeros(B, D, N) if dnew_state is None else dnew_state.clone(memory_format=torch.contiguous_format)
    dA, dbias, dskip = (torch.zeros(B, *sizes, dtype=torch.float64) for sizes in ((D, N), (D,), (D,)))
    threads = native.threads(u.numel() * N)
    room = (3 * BLOCK + 4 * CHUNK + 1) * N + 2 * BLOCK + 4 * CHUNK + 32  # in vectors, as ROOM in the C code
    inputs = (*scan._replace(state=None, lengths=None if lengths is None else lengths.long()), dy, marks)
    gradients = (du, ddelta, dgate, db, dc, dstate, db_parts, dc_parts, dA, dbias, dskip)
    BACKWARD(*inputs, *gradients, threads=threads, blocks=blocks, width=room * layout["lanes"], **layout)
    dA, dbias, dskip = (tensor.sum(0).to(u.dtype) for tensor in (dA, dbias, dskip))
    dgate = u.new_empty(0) if dgate is None else dgate  # an operator returns no None
    return du, ddelta, dA * -log_rate.exp(), db, dc, dstate, dbias, dskip, dgate


def _layout(u: Tensor) -> dict[str, int]:
    """The numbers of chunks and vectors, and the channels of a vector, as in the C code."""
    lanes = BYTES // u.element_size()
    return {"chunks": -(-u.shape[1] // CHUNK), "vectors": -(-u.shape[2] // lanes), "lanes": lanes}


def _marks(u: Tensor, log_rate: Tensor) -> tuple[int, int, int, int, int]:
    """The shape of the saved states: one for each chunk, in vectors of channels."""
    chunks, vectors, lanes = _layout(u).values()
    return len(u), chunks, vectors, log_rate.shape[1], lanes


forward = operator("selective", _forward, _backward, _marks)
selective = selective_by(forward)

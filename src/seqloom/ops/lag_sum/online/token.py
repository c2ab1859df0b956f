"""One token of the lag sum in C, called directly: without gradients or graphs, and the rings are written in place.

All functions take the rings `past` and `ahead` (B, P, D) and the counts `length` and `origin` (B,) of `online`, and
`longest`, the longest block of its schedule. `supports` says whether they can be called. Results do not depend on the
number of threads.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.native import Argument, NativeFunction

SOURCE = Path(__file__).with_name("token.c")
"""the C for taps (L, D) and (L,)"""
MATRICES = Path(__file__).with_name("matrix_token.c")
"""the C for taps (L, D, D) and (L, G, D/G, D/G)"""
LEAF = {1: 1024, 2: 1024, 3: 32, 4: 32}
"""the longest block that is summed lag by lag, by the number of dimensions of the taps (measured)"""
INVALID, NEGATIVE = -1, -2
"""the return values of the C code where an `ahead` is not valid, and where `length` is negative; nothing is written"""


def _entry(verb: str, ndim: int) -> NativeFunction:
    taps, D = {1: ("L", "D"), 2: ("L D", "D"), 3: ("L H H", "G*H"), 4: ("L G H H", "G*H")}[ndim]
    return NativeFunction(
        "lag_sum",
        SOURCE if ndim < 3 else MATRICES,
        f"{'each' if ndim < 3 else 'mixed'}_{verb}",
        f"threads B L-1 {'D per' if ndim < 3 else 'G H'} longest leaf across",
        Argument("z", f"B {D}", step="across", optional=verb == "push"),
        Argument("w", taps),
        Argument("past", f"B L-1 {D}", written=True),
        Argument("ahead", f"B L-1 {D}", written=True),
        Argument("length", "B", torch.long),
        Argument("origin", "B", torch.long),
        Argument("y", f"B {D}", written=True, optional=verb == "push"),
        least="L-1",
    )


ENTRIES = {(verb, ndim): _entry(verb, ndim) for verb in ("token", "read", "push") for ndim in LEAF}
"""C functions by name and number of dimensions of the taps"""
MULTIPLY = NativeFunction(
    "lag_sum",
    MATRICES,
    "multiply",
    "threads F B G H",
    Argument("W", "F G H 2 H"),
    Argument("X", "F B G*H 2"),
    Argument("Y", "F B G*H 2", written=True),
)
SAME = NativeFunction(
    "lag_sum",
    MATRICES,
    "same",
    "bytes",
    Argument("a", "bytes", torch.uint8),
    Argument("b", "bytes", torch.uint8),
    integer=ctypes.c_size_t,
    words={},
)


def supports(z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, length: Tensor, origin: Tensor) -> bool:
    """Whether C supports this token: one dtype, on a CPU, contiguous tensors, and native code."""
    if not native.alike(z, w, past, ahead):
        return False
    readable = w.is_contiguous() and past.is_contiguous() and ahead.is_contiguous()
    return readable and past.ndim == 3 and past.shape[1] > 0 and w.ndim in LEAF and available(z, w.ndim)


def available(like: Tensor, ndim: int) -> bool:
    """Whether there is native code for the dtype of `like` and taps of `ndim` dimensions."""
    supported = like.is_cpu and like.dtype in native.WORD
    return supported and native.library(MATRICES if ndim > 2 else SOURCE) is not None


def advance(
    z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, length: Tensor, origin: Tensor, longest: int
) -> tuple[Tensor | None, bool]:
    """`read` and `push` in one call: y, or None if an `ahead` is not valid, and the result of `push`."""
    y = z.new_empty(z.shape)
    status = _call("token", z, w, past, ahead, length, origin, y, longest)
    return (None, False) if status < 0 else (y, bool(status))


def read(z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, length: Tensor, origin: Tensor) -> Tensor | None:
    """y = z W_0 + its sum in `ahead`, and writes z; None, without writing, where an `ahead` is not valid."""
    y = z.new_empty(z.shape)
    return None if _call("read", z, w, past, ahead, length, origin, y, 1) < 0 else y


def push(w: Tensor, past: Tensor, ahead: Tensor, length: Tensor, origin: Tensor, longest: int) -> bool:
    """Adds to `ahead` the terms of the token that `read` took; `length` counts the tokens before it.

    Returns True where a row's block is longer than LEAF; the caller must add it.
    """
    return bool(_call("push", None, w, past, ahead, length, origin, None, longest))


def multiply(X: Tensor, W: Tensor) -> Tensor:
    """The product of each frequency: X (F, B, D) complex under W (F, G, d, 2, d), real parts next to imaginary ones."""
    Y = torch.empty_like(X, memory_format=torch.contiguous_format)
    MULTIPLY(W, torch.view_as_real(X), torch.view_as_real(Y), threads=native.threads(W.numel()))
    return Y


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one type and shape are the same: bit for bit where there is native code."""
    if not (available(a, 3) and a.is_contiguous() and b.is_contiguous()):
        return torch.equal(a, b)
    return bool(SAME(a.view(-1).view(torch.uint8), b.view(-1).view(torch.uint8)))


def _call(
    verb: str,
    z: Tensor | None,
    w: Tensor,
    past: Tensor,
    ahead: Tensor,
    length: Tensor,
    origin: Tensor,
    y: Tensor | None,
    longest: int,
) -> int:
    """Calls the C function `verb`: its status, 1 where a row's block is longer than LEAF. ValueError for NEGATIVE."""
    entry = ENTRIES[verb, w.ndim]
    sizes = {"threads": native.threads(1 << 40), "longest": longest, "leaf": LEAF[w.ndim]}
    if w.ndim < 3:
        sizes["per"] = past.shape[2] if w.ndim == 2 else 0
    elif w.ndim == 3:
        sizes["G"] = 1
    status = entry(z, w, past, ahead, length, origin, y, **sizes)
    if status == NEGATIVE:
        raise ValueError("lag_sum: `length` must not be negative: this is no state of an Extractor")
    return status

"""One token of the lag sum in C, called as it is: no gradients, no graph, the rings are written in place.

All take the rings `past` and `ahead` (B, P, D) and the counts `seen` and `origin` (B,) of `online`, and `longest`, the
longest block of its schedule. `able` says whether they can be called. The numbers do not depend on how many threads
there are.
"""

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native

SOURCE = Path(__file__).with_name("token.c")
"""the C for taps (L, D) and (L,)"""
MATRICES = Path(__file__).with_name("matrix_token.c")
"""the C for taps (L, D, D) and (L, G, D/G, D/G)"""
LEAF = {1: 1024, 2: 1024, 3: 32, 4: 32}
"""by dimensions of the taps, the longest block that is added up lag by lag: beyond, a transform is faster (measured)"""
INT, SIZE, POINTER = ctypes.c_int, ctypes.c_size_t, ctypes.c_void_p
TAKES = {
    "token": [*[INT] * 7, SIZE, *[POINTER] * 7],
    "multiply": [*[INT] * 5, *[POINTER] * 3],
    "same": [SIZE, POINTER, POINTER],
}


def able(z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, seen: Tensor, origin: Tensor) -> bool:
    """Whether this token can be read in C: one number type on a CPU, nothing with gaps, a compiler."""
    kind = ahead.dtype
    alike = z.dtype == kind and w.dtype == kind and past.dtype == kind and seen.dtype == origin.dtype == torch.long
    whole = w.is_contiguous() and past.is_contiguous() and ahead.is_contiguous()
    counts = seen.is_contiguous() and origin.is_contiguous()
    return alike and whole and counts and past.shape[1] > 0 and available(z, w.ndim)


def available(like: Tensor, ndim: int) -> bool:
    """Whether there is native code for such numbers, under taps of so many dimensions."""
    here = like.device.type == "cpu" and like.dtype in native.WORD
    return here and native.library(MATRICES if ndim > 2 else SOURCE) is not None


def advance(
    z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, seen: Tensor, origin: Tensor, longest: int
) -> tuple[Tensor | None, bool]:
    """`read` and `push` in one call: y, None if an `ahead` is not valid, and what `push` says."""
    y = z.new_empty(z.shape)
    done = _call("token", z, w, past, ahead, seen, origin, y, longest)
    return (None, False) if done < 0 else (y, bool(done))


def read(z: Tensor, w: Tensor, past: Tensor, ahead: Tensor, seen: Tensor, origin: Tensor) -> Tensor | None:
    """y = z W_0 + what `ahead` holds for it, writing z; None, and nothing is written, where one is invalid."""
    y = z.new_empty(z.shape)
    return y if _call("read", z, w, past, ahead, seen, origin, y, 1) else None


def push(w: Tensor, past: Tensor, ahead: Tensor, seen: Tensor, origin: Tensor, longest: int) -> bool:
    """Adds to `ahead` what comes after the token that `read` read, `seen` counting those before it.

    True where a row's block is longer than LEAF, which then is left to do.
    """
    return bool(_call("push", None, w, past, ahead, seen, origin, None, longest))


def multiply(X: Tensor, W: Tensor) -> Tensor:
    """The product of each frequency: X (F, B, D) complex under W (F, G, d, 2, d), real parts beside imaginary ones."""
    F, G, d, _, _ = W.shape
    Y, run = torch.empty_like(X), _function(MATRICES, f"multiply_{native.WORD[W.dtype]}", "multiply")
    run(native.threads(W.numel()), F, X.shape[1], G, d, X.data_ptr(), W.data_ptr(), Y.data_ptr())
    return Y


def same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors of one type and shape are the same: bit for bit where there is native code."""
    if not (available(a, 3) and a.is_contiguous() and b.is_contiguous()):
        return torch.equal(a, b)
    return bool(_function(MATRICES, "same", "same")(a.nbytes, a.data_ptr(), b.data_ptr()))


def _call(
    verb: str,
    z: Tensor | None,
    w: Tensor,
    past: Tensor,
    ahead: Tensor,
    seen: Tensor,
    origin: Tensor,
    y: Tensor | None,
    longest: int,
) -> int:
    if z is not None and z.stride(1) != 1:
        z = z.contiguous()
    B, P, D = past.shape
    if w.ndim < 3:
        kind, source, sizes = "each", SOURCE, (D, D if w.ndim == 2 else 0)
    else:
        kind, source, sizes = "mixed", MATRICES, (w.shape[1] if w.ndim == 4 else 1, w.shape[-1])
    run = _function(source, f"{kind}_{verb}_{native.WORD[ahead.dtype]}", "token")
    done: int = run(
        native.threads(1 << 40),  # the C takes as many of them as the token is worth
        B,
        P,
        *sizes,
        longest,
        LEAF[w.ndim],
        0 if z is None else z.stride(0),
        None if z is None else z.data_ptr(),
        w.data_ptr(),
        past.data_ptr(),
        ahead.data_ptr(),
        seen.data_ptr(),
        origin.data_ptr(),
        None if y is None else y.data_ptr(),
    )
    return done


def _function(source: Path, name: str, takes: str) -> Callable[..., Any]:
    function = getattr(native.library(source), name)
    if function.argtypes is None:
        function.argtypes = TAKES[takes]
    taken: Callable[..., Any] = function
    return taken

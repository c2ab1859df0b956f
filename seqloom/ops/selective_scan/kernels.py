"""The C of the package (scan.c) as Python calls it: sizes and pointers, and when it may be called without a detour.

torch's operators cost more than a token does. Where nothing can see the difference (nobody learns, no graph is
captured, no mode counts operations), the C is therefore called as it is.
"""

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from seqloom.ops import native

SOURCE = Path(__file__).with_name("scan.c")
CHUNK, BLOCK = 32, 4
"""tokens between two states that are kept, and vectors of channels of a task, as the C has them"""
BYTES = 64
"""of a vector"""
KIND = {torch.float32: "float", torch.float64: "double"}
"""the C's names of the number types that it has"""

_SIZES, _GIVEN = ctypes.c_int64 * 10, ctypes.c_void_p * 10


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # as torch leaves it
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


def unseen(*held: Tensor | None) -> bool:
    """Whether nothing can see if the C is called as it is. RuntimeError in forward mode, as torch would drop it."""
    if torch.compiler.is_compiling() or is_in_torch_dispatch_mode():
        return False
    if forward_ad._current_level >= 0:
        raise RuntimeError("forward-mode derivatives are not implemented in C: force selective_scan='reference'")
    return not (torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in held))


def call(name: str, like: Tensor, sizes: Any, given: Any, *out: Tensor | Any | None) -> None:
    """Runs a kernel of the C for the number type of `like`; ValueError where there is no native code."""
    library = native.need("selective_scan", SOURCE)
    rest = [native.pointer(each) if isinstance(each, Tensor) else each for each in out]
    getattr(library, f"{name}_{KIND[like.dtype]}")(sizes, given, *rest)


def sized(threads: int, B: int, T: int, D: int, N: int, *steps: int) -> Any:
    """The C's `struct sizes`: how far one token is from the next, in u, delta, b, c and the gate, comes last."""
    return _SIZES(threads, B, T, D, N, *steps)


def given(*held: Tensor | None) -> Any:
    """The C's `given`: where u, delta, log_rate, b, c, state, bias, skip, gate and lengths lie. They must live on."""
    return _GIVEN(*[None if each is None else each.data_ptr() for each in held])


def pointers(held: Sequence[Tensor]) -> Any:
    """Where the tensors lie, as an array of the C."""
    return (ctypes.c_void_p * len(held))(*[each.data_ptr() for each in held])


def by_token(x: Tensor) -> Tensor:
    """Itself if each token's numbers lie beside each other and tokens in even steps, else a copy that does."""
    row, step, one = x.stride()
    return x if one == 1 and (row == x.shape[1] * step or len(x) == 1) and step >= x.shape[2] else x.contiguous()


def whole(x: Tensor | None) -> Tensor | None:
    """Itself or a copy without gaps."""
    return None if x is None else x.contiguous()

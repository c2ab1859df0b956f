"""The recurrence in C (scan.c): token by token, many channels at once, threads over rows and channels.

Two operators of torch, so that a compiled or an exported model holds them as they are. The numbers do not depend on how
many threads there are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.scans import recurrence

SOURCE = Path(__file__).with_name("scan.c")
"""the C of both operators"""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # as torch leaves it
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


@torch.library.custom_op("seqloom::scan_forward", mutates_args=(), device_types="cpu")
def forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; float32 or float64, complex64 or complex128. ValueError where there is no native code."""
    h = _like(b)
    _call("forward", a, b, (a, b, state), (h,))
    return h


@torch.library.custom_op("seqloom::scan_backward", mutates_args=(), device_types="cpu")
def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.float64)  # one a adds up over all tokens
    da = h.new_empty(state.shape, dtype=wide) if a.ndim == 1 else _like(h)
    db, dstate = _like(h), _like(state)
    _call("backward", a, h, (a, h, state, dh), (da, db, dstate))
    return (da.sum(0).to(a.dtype) if a.ndim == 1 else da), db, dstate


@forward.register_fake
def _forward_shapes(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    return _like(b)


@_backward.register_fake
def _backward_shapes(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    return _like(a), _like(h), _like(state)


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output, inputs[2])


def _gradients(ctx: Any, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    a, h, state = ctx.saved_tensors
    if torch.is_grad_enabled():
        return recurrence.gradients(forward, a, h, state, dh)
    return _backward(a, h, state, dh)


forward.register_autograd(_gradients, setup_context=_save)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)


def _call(name: str, a: Tensor, h: Tensor, given: Sequence[Tensor], out: Sequence[Tensor]) -> None:
    kernel = getattr(native.need("scans", SOURCE), f"{name}_{native.WORD[h.dtype.to_real()]}")
    held = [each.contiguous() for each in (*given, *out)]
    kernel(native.threads(h.numel()), h.is_complex(), a.ndim == 1, *h.shape, *map(native.pointer, held))

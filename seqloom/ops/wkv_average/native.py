"""The walk of `averages` in C (wkv.c): token by token, many channels at once, threads over rows and channels.

Two operators of torch, so that a compiled or an exported model holds them as they are. The numbers do not depend on how
many threads there are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.wkv_average import averages

SOURCE = Path(__file__).with_name("wkv.c")
"""the C of both operators"""


@torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]  # as torch leaves it
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def token(k: Tensor, v: Tensor, log_rate: Tensor | None, bonus: Tensor | None, state: Tensor, after: Tensor) -> Tensor:
    """One token (B, D) without gradients, at the price of a call: y, and in `after`, which may be `state`, the state.

    All of one type, float32 or float64; both states are contiguous.
    """
    y = torch.empty_like(k, memory_format=torch.contiguous_format)
    kernel = _kernel("token", k)
    held = [None if each is None else each.contiguous() for each in (k, v, log_rate, bonus)]
    kernel(*k.shape, *map(native.pointer, (*held, state, y, after)))
    return y


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


@torch.library.custom_op("seqloom::wkv_forward", mutates_args=(), device_types="cpu")
def forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`; float32 or float64. Raises ValueError where there is no native code."""
    B, T, D = k.shape
    y, means, logs = k.new_empty(B, T, D), k.new_empty(B, T + 1, D), k.new_empty(B, T + 1, D)
    _call("forward", k, (k, v, *_weights(k, w, u), mean, log), (y, means, logs))
    return y, means, logs


@torch.library.custom_op("seqloom::wkv_backward", mutates_args=(), device_types="cpu")
def _backward(
    k: Tensor,
    v: Tensor,
    w: Tensor | None,
    u: Tensor | None,
    mean: Tensor,
    log: Tensor,
    dy: Tensor,
    dmean: Tensor | None,
    dlog: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    (B, _, D), dk, dv = k.shape, k.new_empty(k.shape), v.new_empty(v.shape)
    dw, du = (k.new_empty(B, D, dtype=torch.float64) for _ in range(2))
    M, N = k.new_empty(B, D), k.new_empty(B, D)
    _call("backward", k, (k, v, *_weights(k, w, u), mean, log, dy, dmean, dlog), (dk, dv, dw, du, M, N))
    return dk, dv, dw.sum(0).to(k.dtype), du.sum(0).to(k.dtype), M, N


def backward(
    inputs: tuple[Tensor, Tensor, Tensor | None, Tensor | None],
    mean: Tensor,
    log: Tensor,
    dy: Tensor,
    dmean: Tensor | None,
    dlog: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, Tensor | None, Tensor, Tensor]:
    """See `averages.Walk`."""
    dk, dv, dw, du, M, N = _backward(*inputs, mean, log, dy, dmean, dlog)
    return dk, dv, None if inputs[2] is None else dw, None if inputs[3] is None else du, M, N


@forward.register_fake
def _forward_shapes(k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    B, T, D = k.shape
    return k.new_empty(B, T, D), k.new_empty(B, T + 1, D), k.new_empty(B, T + 1, D)


@_backward.register_fake
def _backward_shapes(k: Tensor, v: Tensor, *rest: Tensor | None) -> tuple[Tensor, ...]:
    B, _, D = k.shape
    return (k.new_empty(k.shape), k.new_empty(k.shape), *(k.new_empty(n) for n in ((D,), (D,), (B, D), (B, D))))


def _save(ctx: Any, inputs: tuple[Tensor | None, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    ctx.save_for_backward(*inputs[:4], *output[1:])
    ctx.set_materialize_grads(False)


def _gradients(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
    return averages.gradients(backward, ctx.saved_tensors, *grads)


forward.register_autograd(_gradients, setup_context=_save)


def _kernel(name: str, k: Tensor) -> Any:
    return getattr(native.need("wkv_average", SOURCE), f"{name}_{native.WORD[k.dtype]}")


def _weights(k: Tensor, w: Tensor | None, u: Tensor | None) -> tuple[Tensor, Tensor]:
    nothing = k.new_zeros(k.shape[2])
    return nothing if w is None else w, nothing if u is None else u


def _call(name: str, k: Tensor, given: Sequence[Tensor | None], out: Sequence[Tensor]) -> None:
    kernel = _kernel(name, k)
    held = [None if each is None else each.contiguous() for each in (*given, *out)]
    kernel(native.threads(k.numel()), *k.shape, *map(native.pointer, held))

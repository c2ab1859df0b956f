"""The recurrences token by token, with as few operations per token as possible: shared products are computed at once.

The layout is (T, B, …), so that the numbers of a token are contiguous. Backward goes from the last token to the first;
the gradients of the weights are one product over all tokens. Second derivatives are taken through the reference.
"""

from typing import Any

import torch
from torch import Tensor

from seqloom.ops import backends
from seqloom.ops.autograd import differentiate
from seqloom.ops.fused.projection import outer, project
from seqloom.ops.recurrence import reference
from seqloom.ops.recurrence.loops import LOOPS, Loop, Tensors


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
    states: Tensors = _Looped.apply(cell, LOOPS[cell], len(state), x, w_in, bias, *weights, *state)  # type: ignore[no-untyped-call]  # torch does not type apply
    by_row = [tensor.transpose(0, 1) for tensor in states]  # (B, T+1, N)
    return by_row[0][:, 1:], tuple(reference.state_after(tensor, lengths) for tensor in by_row)


class _Looped(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, cell: str, loop: Loop, state_count: int, x: Tensor, w_in: Tensor, bias: Tensor, *rest: Tensor
    ) -> Tensors:
        weights, state = rest[:-state_count], rest[-state_count:]
        a = project(x.transpose(0, 1).contiguous(), w_in, bias)
        states, saved = loop.forward(a, weights, state)
        ctx.save_for_backward(x, w_in, bias, *rest, *states, *saved)
        ctx.set_materialize_grads(False)
        ctx.cell, ctx.loop, ctx.state_count, ctx.inputs = cell, loop, state_count, 3 + len(rest)
        ctx.backends = backends.forced_backends()
        return states

    @staticmethod
    def backward(ctx: Any, *output_grads: Tensor | None) -> tuple[Tensor | None, ...]:
        tensors: Tensors = ctx.saved_tensors
        inputs, outputs = tensors[: ctx.inputs], tensors[ctx.inputs :]
        if all(tensor is None for tensor in output_grads):
            return (None,) * (3 + len(inputs))
        if torch.is_grad_enabled():
            return None, None, None, *_differentiable(ctx.cell, ctx.state_count, inputs, output_grads)
        x, w_in, _, *rest = inputs
        weights = tuple(rest[: -ctx.state_count])
        states, saved = outputs[: ctx.state_count], outputs[ctx.state_count :]
        state_grads = tuple(
            torch.zeros_like(h) if dh is None else dh for h, dh in zip(states, output_grads, strict=True)
        )
        with backends.restore_backends(ctx.backends):  # so products use what was forced in forward
            da, initial_grads = ctx.loop.backward(weights, states, saved, state_grads)
            weight_grads = ctx.loop.weight_grads(states, saved, da)
            da_rows = da.flatten(0, 1)
            dx = project(da_rows, w_in.T).unflatten(0, da.shape[:2]).transpose(0, 1)
            dw_in = outer(da_rows, x.transpose(0, 1).flatten(0, 1))
        return None, None, None, dx, dw_in, da_rows.sum(0), *weight_grads, *initial_grads


def _differentiable(
    cell: str, state_count: int, inputs: Tensors, output_grads: tuple[Tensor | None, ...]
) -> list[Tensor | None]:
    """The gradients of the inputs as tensors that can be differentiated again."""

    def compute(x: Tensor, w_in: Tensor, bias: Tensor, *rest: Tensor) -> list[Tensor]:
        states = reference.states(cell, x, w_in, bias, tuple(rest[:-state_count]), tuple(rest[-state_count:]))
        return [tensor.transpose(0, 1) for tensor in states]

    return differentiate(compute, inputs, output_grads)

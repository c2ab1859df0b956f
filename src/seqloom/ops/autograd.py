"""A kernel of ours as an operator of torch: with shapes, so that a graph holds it as it is, and with derivatives.

    forward = paired("scan", _forward, _backward, shapes=..., gradient_shapes=..., save=..., again=...)
    h = forward(a, b, state)

Three ways lead to the same function. Where something watches what torch runs (a graph is captured, operations are
counted or mapped) it is the operator. Where gradients are wanted it is an autograd function, which costs 50 µs where
the operator costs 183. Without gradients it is called as it is, so that a token step pays nothing.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.ops.native import watched

Sizes: TypeAlias = Sequence[Sequence[int]]
"""a shape for each tensor that comes out"""
Gradients: TypeAlias = tuple[Tensor | None, ...]
CPU, GPU = ("cpu",), ("cuda", "cpu")
"""devices: kernels of Triton run on a CPU too, under its interpreter"""


@final
class Operator:
    """`run`, a function of tensors, as `seqloom::name`. Its annotations are the operator's schema.

    `shapes` takes what `run` takes and returns the shape of each tensor that comes out; these have the dtype and the
    device of the first one that goes in.
    """

    def __init__(
        self, name: str, run: Callable[..., Any], shapes: Callable[..., Sizes], devices: Sequence[str] = CPU
    ) -> None:
        single = inspect.signature(run).return_annotation is Tensor

        def fake(first: Tensor, *rest: Any) -> Tensor | tuple[Tensor, ...]:
            made = tuple(first.new_empty(tuple(size)) for size in shapes(first, *rest))
            return made[0] if single else made

        self.name = name
        self.run = run
        self.operator = torch.library.custom_op(f"seqloom::{name}", run, mutates_args=(), device_types=devices)
        """what a graph holds"""
        self.operator.register_fake(fake)
        self.backward: Operator | None = None
        """its gradients, where they are an operator too"""
        self._function: Callable[..., Any] = self.operator

    def differentiable(self, save: Callable[[Any, Any, Any], None], gradients: Callable[..., Gradients]) -> None:
        """Gives it gradients: `save(ctx, inputs, output)` in the forward, `gradients(ctx, *of_outputs)` after it."""
        self.operator.register_autograd(gradients, setup_context=save)
        run = self.run

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                output = run(*inputs)
                save(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx: Any, *of_outputs: Tensor | None) -> Gradients:
                return gradients(ctx, *of_outputs)

        self._function = Function.apply

    def __call__(self, *given: Any) -> Any:
        """What `run` returns, the first argument a tensor. RuntimeError in forward mode, which has no derivatives."""
        if watched(given[0]) or given[0].is_meta:
            return self.operator(*given)
        if forward_ad._current_level >= 0:
            raise RuntimeError(
                f"forward-mode derivatives of {self.name} are not implemented: force backend 'reference'"
            )
        if torch.is_grad_enabled() and any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in given):
            return self._function(*given)
        return self.run(*given)


def paired(
    name: str,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    shapes: Callable[..., Sizes],
    gradient_shapes: Callable[..., Sizes],
    save: Callable[[Sequence[Any], Sequence[Tensor]], Sequence[Tensor | None]],
    again: Callable[..., Sequence[Tensor | None]] | None = None,
    results: int = 1,
    devices: Sequence[str] = CPU,
) -> Operator:
    """The operator `name`_forward, whose gradients are the operator `name`_backward.

    `save(inputs, outputs)` chooses what backward reads. `backward(*saved, *dy)` gets the gradients of the first
    `results` outputs, the first never None, and returns one for each input, at least of those that have any; what it
    returns for an input that was None is ignored. `again` takes the same and returns gradients that can be
    differentiated again, with None where there is none; without it a second derivative raises RuntimeError.
    """
    back = Operator(f"{name}_backward", backward, gradient_shapes, devices)
    operator = Operator(f"{name}_forward", forward, shapes, devices)

    def keep(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        outputs = (output,) if isinstance(output, Tensor) else output
        ctx.save_for_backward(*save(inputs, outputs))
        ctx.set_materialize_grads(False)
        ctx.given = [isinstance(tensor, Tensor) for tensor in inputs]
        ctx.shape = outputs[0].shape

    def gradients(ctx: Any, *of_outputs: Tensor | None) -> Gradients:
        saved = ctx.saved_tensors
        first, *others = of_outputs[:results]
        dy = saved[0].new_zeros(ctx.shape) if first is None else first
        if torch.is_grad_enabled():
            if again is None:
                raise RuntimeError(f"{name} has no second derivative: force its backend 'reference' to get one")
            found = again(*saved, dy, *others)
        else:
            found = back(*saved, dy, *others)
        found = (*found, *[None] * (len(ctx.given) - len(found)))
        return tuple(tensor if given else None for tensor, given in zip(found, ctx.given, strict=True))

    operator.differentiable(keep, gradients)
    operator.backward = back
    return operator


def differentiate(
    compute: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor | None], of_outputs: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The gradients of `compute(*inputs)` as tensors that can be differentiated again; None where none is wanted.

    `compute` is written in torch's own operations. The inputs are taken under new names, so that a state that itself
    depends on the weights counts as given.
    """
    named = [None if input is None else input.view_as(input) for input in inputs]
    ends = [(y, dy) for y, dy in zip(compute(*named), of_outputs, strict=True) if dy is not None]
    wanted = [tensor for tensor in named if tensor is not None and tensor.requires_grad]
    outputs, reached = [y for y, _ in ends], [dy for _, dy in ends]
    results = iter(torch.autograd.grad(outputs, wanted, reached, create_graph=True, allow_unused=True))
    return [next(results) if input is not None and input.requires_grad else None for input in named]

"""Makes a kernel an operator of torch, with shapes, so that graphs contain it unchanged, and with derivatives.

    forward = paired("scan", _forward, _backward, shapes=..., gradient_shapes=..., save=..., differentiable=...)
    h = forward(a, b, state)

The function is called in one of three ways. Where something observes torch's operations (a captured graph, a counter, a
transform such as vmap), the operator is called. Otherwise, with gradients, an autograd function is called, which takes
50 µs where the operator takes 183. Without gradients the function is called directly, so that a step has no overhead.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, final

import torch
from torch import Tensor
from torch._library.autograd import make_autograd_impl
from torch._library.custom_ops import CustomOpDef
from torch.autograd import forward_ad

from seqloom.ops.native import is_observed

Sizes: TypeAlias = Sequence[Sequence[int]]
"""the shape of each output"""
Gradients: TypeAlias = tuple[Tensor | None, ...]
LIBRARY = torch.library.Library("seqloom", "FRAGMENT")
CPU, GPU = ("cpu",), ("cuda", "cpu")
"""device types; Triton's kernels also run on a CPU, under its interpreter"""


def refuse_tangents(operator: CustomOpDef) -> None:
    """Makes an operator raise RuntimeError where an input has a tangent; torch's own rule would drop it.

    It is so in a graph that was captured before and is now differentiated in forward mode.
    """
    overload = operator._opoverload
    rule = make_autograd_impl(overload, operator)

    def refusing(keyset: Any, *arguments: Any, **options: Any) -> Any:
        if forward_ad._current_level >= 0:
            tensors = [x for x in arguments if isinstance(x, Tensor)]
            if any(forward_ad.unpack_dual(x).tangent is not None for x in tensors):
                raise RuntimeError(_without_tangents(overload._schema.name))
        return rule(keyset, *arguments, **options)

    for key in ("AutogradCPU", "AutogradCUDA"):  # in front of "Autograd", where torch has put its rule
        LIBRARY.impl(overload, refusing, key, with_keyset=True)


def _without_tangents(name: str) -> str:
    return f"forward-mode derivatives of {name} are not implemented: force backend 'reference'"


@final
class Operator:
    """The function `run` as the operator `seqloom::name`, whose schema is given by the annotations of `run`.

    `shapes` takes the arguments of `run` and returns the shape of each output; outputs have the dtype and the device of
    the first input. Without `shapes` it is `run` that gets tensors without numbers, where a graph is captured.
    """

    def __init__(
        self,
        name: str,
        run: Callable[..., Any],
        shapes: Callable[..., Sizes] | None = None,
        devices: Sequence[str] = CPU,
    ) -> None:
        single_output = inspect.signature(run).return_annotation is Tensor

        def fake(first: Tensor, *rest: Any) -> Any:
            if shapes is None:
                return run(first, *rest)
            outputs = tuple(first.new_empty(tuple(size)) for size in shapes(first, *rest))
            return outputs[0] if single_output else outputs

        self.name = name
        self.run = run
        self.operator = torch.library.custom_op(f"seqloom::{name}", run, mutates_args=(), device_types=devices)
        """the operator that graphs contain"""
        self.operator.register_fake(fake)
        refuse_tangents(self.operator)
        self.backward: Operator | None = None
        """the operator of its gradients, if there is one"""
        self._function: Callable[..., Any] = self.operator

    def differentiable(self, save: Callable[[Any, Any, Any], None], gradients: Callable[..., Gradients]) -> None:
        """Sets the derivatives: forward calls `save(ctx, inputs, output)`, backward `gradients(ctx, *output_grads)`."""
        self.operator.register_autograd(gradients, setup_context=save)
        run = self.run

        class Function(torch.autograd.Function):
            @staticmethod
            def forward(ctx: Any, *inputs: Any) -> Any:
                output = run(*inputs)
                save(ctx, inputs, output)
                return output

            @staticmethod
            def backward(ctx: Any, *output_grads: Tensor | None) -> Gradients:
                return gradients(ctx, *output_grads)

        self._function = Function.apply

    def __call__(self, *arguments: Any) -> Any:
        """Returns what `run` returns; the first argument is a tensor. RuntimeError in forward-mode differentiation."""
        if forward_ad._current_level >= 0:
            raise RuntimeError(_without_tangents(self.name))
        if is_observed(arguments[0]) or arguments[0].is_meta:
            return self.operator(*arguments)
        if torch.is_grad_enabled() and any(isinstance(tensor, Tensor) and tensor.requires_grad for tensor in arguments):
            return self._function(*arguments)
        return self.run(*arguments)


def pair_operators(
    name: str,
    forward: Callable[..., Any],
    backward: Callable[..., Any],
    *,
    shapes: Callable[..., Sizes] | None = None,
    gradient_shapes: Callable[..., Sizes] | None = None,
    save: Callable[[Sequence[Any], Sequence[Tensor]], Sequence[Any]],
    differentiable: Callable[..., Sequence[Tensor | None]] | None = None,
    results: int = 1,
    devices: Sequence[str] = CPU,
) -> Operator:
    """The operator `name`_forward, whose gradients are the operator `name`_backward.

    `save(inputs, outputs)` returns what backward reads. `backward(*saved, *dy)` gets the gradients of the first
    `results` outputs, of which the first is never None, and returns the gradients of the inputs in order; later inputs
    without gradients may be left out, and a gradient of an input that was None is ignored. `differentiable` has the
    same arguments and returns gradients that can be differentiated again, or None; without it a second derivative
    raises RuntimeError.
    """
    backward_operator = Operator(f"{name}_backward", backward, gradient_shapes, devices)
    operator = Operator(f"{name}_forward", forward, shapes, devices)

    def save_context(ctx: Any, inputs: Sequence[Any], output: Any) -> None:
        outputs = (output,) if isinstance(output, Tensor) else output
        saved = save(inputs, outputs)
        ctx.save_for_backward(*(x if isinstance(x, Tensor) else None for x in saved))
        ctx.numbers = [None if isinstance(x, Tensor) else x for x in saved]
        ctx.set_materialize_grads(False)
        ctx.is_tensor = [isinstance(tensor, Tensor) for tensor in inputs]
        ctx.shape = outputs[0].shape

    def gradients(ctx: Any, *output_grads: Tensor | None) -> Gradients:
        saved = [x if number is None else number for x, number in zip(ctx.saved_tensors, ctx.numbers, strict=True)]
        first_grad, *other_grads = output_grads[:results]
        dy = saved[0].new_zeros(ctx.shape) if first_grad is None else first_grad
        if torch.is_grad_enabled():
            if differentiable is None:
                raise RuntimeError(f"{name} has no second derivative: force its backend 'reference' to get one")
            grads = differentiable(*saved, dy, *other_grads)
        else:
            grads = backward_operator(*saved, dy, *other_grads)
        grads = (*grads, *[None] * (len(ctx.is_tensor) - len(grads)))
        return tuple(grad if is_tensor else None for grad, is_tensor in zip(grads, ctx.is_tensor, strict=True))

    operator.differentiable(save_context, gradients)
    operator.backward = backward_operator
    return operator


def differentiate(
    compute: Callable[..., Sequence[Tensor]], inputs: Sequence[Any], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    """The gradient of each input, from those of the outputs of `compute(*inputs)`, as tensors that have derivatives.

    An input that is no tensor or requires no gradient gets None. `compute` uses torch's operations only. Inputs are
    replaced by views, so that an input that depends on another one, such as a state on the weights, counts as
    independent of it.
    """
    views = [input.view_as(input) if isinstance(input, Tensor) else input for input in inputs]
    pairs = [(y, dy) for y, dy in zip(compute(*views), grads, strict=True) if dy is not None and y.requires_grad]
    outputs, output_grads = [y for y, _ in pairs], [dy for _, dy in pairs]
    variables = [view for view in views if isinstance(view, Tensor) and view.requires_grad]
    input_grads = iter(torch.autograd.grad(outputs, variables, output_grads, create_graph=True, allow_unused=True))
    return [next(input_grads) if isinstance(view, Tensor) and view.requires_grad else None for view in views]

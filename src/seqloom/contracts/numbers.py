"""Promises 5, 9 and 12, of the forward: it computes the same for a row alone, in bfloat16, and in a compiled graph."""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, NotApplicable, largest, promise
from seqloom.contracts.subject import Subject, at_each_size, draw, forward
from seqloom.core.error_text import first_line
from seqloom.ops.bucketing import choices

NOISE = (math.nan, 1e6, math.inf)
"""what the other rows hold"""
BOUND = 2e-2
"""the relative error that bfloat16 may have"""
TOKENS = 128
"""of which it has this error: sums over all tokens are rounded like long ones"""
BACKEND = "aot_eager"
"""traces the forward and its gradients as graphs, without generating code"""


@promise("rows")
def rows(subject: Subject) -> Largest:
    """Each row of a batch gives the same output as alone, whatever the other rows hold."""
    worst = Largest(subject.scale)

    def read(module: nn.Module, T: int) -> None:
        _rows_alone(subject, module, subject.draw_with_repeats(4, T), worst)

    at_each_size(read, subject, 1, 5)
    return worst


@torch.no_grad()
def _rows_alone(subject: Subject, module: nn.Module, x: Tensor, worst: Largest) -> None:
    """Compares each row's output with that of the row alone, and with that next to rows of NaN, 1e6 and infinity."""
    y = forward(module, x)
    for row in range(len(x)):
        worst.close(y[row], forward(module, x[row : row + 1])[0], subject.strict, f"row {row} next to others")
    worst.settle()
    with largest(subject.scale) as noisy:
        for row in range(len(x)):
            for noise in NOISE:
                others = torch.full_like(x, noise)
                others[row] = x[row]
                noisy.close(forward(module, others)[row], y[row], subject.strict, f"row {row} next to rows of {noise}")


@promise("bfloat16")
def bfloat16(subject: Subject) -> Largest:
    """The forward reads and writes bfloat16, within 2% (relative root mean square) of the wider dtype.

    Both have the same rounded weights, and make the same discrete choices.
    """
    if subject.dtype.itemsize < torch.float32.itemsize:
        raise NotApplicable(f"it is compared in {str(subject.dtype).removeprefix('torch.')}, which is no wider")
    wide = subject.module(subject.contexts[-1])
    narrow = subject.build(subject.contexts[-1], torch.bfloat16)
    T = subject.fits(wide, TOKENS)
    x = draw(4, T, subject.dim, dtype=torch.bfloat16, device=subject.device)
    with torch.no_grad():
        for name, parameter in narrow.named_parameters():
            wide.get_parameter(name).copy_(parameter)
        with choices.record_choices() as made:
            expected = forward(wide, x.to(subject.dtype)).double()
        with choices.fix_choices(made):
            result = forward(narrow, x)
    if result.dtype != torch.bfloat16:
        raise Broken(f"bfloat16 in, {str(result.dtype).removeprefix('torch.')} out")
    worst = Largest(subject.scale)
    worst.note(float((result.double() - expected).norm() / expected.norm()), BOUND, "the relative error is")
    worst.settle()
    return worst


@promise("compile")
def compiles(subject: Subject) -> Largest:
    """`torch.compile(fullgraph=True)` captures `forward` in one graph, with the same outputs and gradients."""
    torch._dynamo.reset()
    module = subject.module()
    x = subject.draw(2, subject.fits(module, 5), subject.dim)
    compiled = torch.compile(module, fullgraph=True, backend=BACKEND)
    expected = _with_gradients(module, module, x)
    try:
        result = _with_gradients(compiled, module, x)
    except torch._dynamo.exc.TorchDynamoException as error:
        raise Broken(f"it is not one graph: {first_line(error)}") from error
    worst = Largest(subject.scale)
    for name, value in expected.items():
        worst.close(result[name], value, 10 * subject.rounding, name)
    worst.settle()
    return worst


def _with_gradients(run: Callable[[Tensor], Tensor], module: nn.Module, x: Tensor) -> dict[str, Tensor]:
    """The output of `run`, and the gradients of its sum of squares to x and to the module's parameters, by name."""
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    y.square().sum().backward()
    assert x.grad is not None
    parameters = module.named_parameters()
    gradients = {f"the gradient of {name}": weight.grad for name, weight in parameters if weight.grad is not None}
    return {"the output": y.detach(), "the gradient of the input": x.grad, **gradients}

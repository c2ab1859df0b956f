"""A layer is the one that its author wrote plainly: the same outputs, and the same gradients.

The reference reads the same sequences in float64 on the CPU, whole, with the same weights: its `forward` is enough.
This tests what differences cannot measure, such as kernels that compute in bfloat16 alone.
"""

from functools import partial

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, NotApplicable, promise
from seqloom.contracts.readings import (
    EARLIER,
    INPUT,
    NoGradient,
    Run,
    differentiate_output,
    is_required,
    readings,
    whole,
)
from seqloom.contracts.subject import Subject

ALLOWED = {torch.float64: (1e-9, 1e-7), torch.float32: (1e-5, 1e-4)}
"""the allowed errors of outputs and of gradients, by the narrowest dtype: relative root mean squares"""
NARROW = (2e-2, 5e-2)
"""the same for bfloat16 and float16"""
OUTPUT = "the output"
SMALL = 0.01
"""the share of the largest of all gradients that a smaller one is measured against: some are 0 but for rounding"""


@promise("reference")
def reference(subject: Subject) -> Largest:
    """Outputs and gradients, of whole sequences and of pieces, are those of the reference."""
    if subject.reference is None:
        raise NotApplicable("there is no --reference")
    of_output, of_gradient = ALLOWED.get(subject.working, NARROW)
    worst = Largest(0.0)
    for reading in readings(subject):
        module = subject.module(reading.context)
        plain = _with_weights(subject.reference(reading.context, torch.float64), module)
        try:
            result = _differentiate_inputs(reading.run, module, reading.inputs())
        except NoGradient as error:
            if is_required(reading, module):
                raise Broken(f"{reading.name}: {error}") from error
            continue
        expected = _differentiate_inputs(whole, plain, {name: x.cpu().double() for name, x in reading.inputs().items()})
        scale = max((_size(tensor) for name, tensor in expected.items() if name != OUTPUT), default=0.0)
        for name, tensor in expected.items():
            is_output = name == OUTPUT
            least = 0.0 if is_output else SMALL * scale
            difference = _size(result[name].cpu().double() - tensor) / max(_size(tensor), least, 1e-30)
            worst.note(difference, of_output if is_output else of_gradient, f"{reading.name}: {name} is off by")
    worst.settle()
    return worst


def _with_weights(plain: nn.Module, module: nn.Module) -> nn.Module:
    """The reference with the parameters of the module, and with its buffers where it has the same."""
    buffers = dict(module.named_buffers())
    with torch.no_grad():
        for name, weight in module.named_parameters():
            plain.get_parameter(name).copy_(weight)
        for name, buffer in plain.named_buffers():
            if name in buffers and buffers[name].shape == buffer.shape:
                buffer.copy_(buffers[name])
    return plain


def _differentiate_inputs(run: Run, module: nn.Module, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The output, and the gradients of a weighted sum of it to inputs and parameters, by name."""
    given = {name: x.clone().requires_grad_() for name, x in inputs.items()}
    x = given[INPUT]
    parameters = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    tensors = {**given, **parameters}
    y, _, gradients = differentiate_output(
        partial(run, module, x, given.get(EARLIER, x[:, :0])), list(tensors.values())
    )
    named = {f"the gradient of {name}": gradient for name, gradient in zip(tensors, gradients, strict=True)}
    return {OUTPUT: y, **named}


def _size(tensor: Tensor) -> float:
    return float(tensor.square().mean().sqrt()) if tensor.numel() else 0.0

"""Promise 12, of the forward: `torch.compile(fullgraph=True)` computes the same, and the same gradients."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, first_line, promise
from seqloom.contracts.subject import Subject

BACKEND = "aot_eager"
"""traces the forward and its gradients as graphs, without generating code"""


@promise("compile")
def compiles(subject: Subject) -> Largest:
    """The promise that `forward` and its gradients are captured in one graph."""
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
    module.zero_grad()
    x = x.clone().requires_grad_()
    y = run(x)
    y.square().sum().backward()
    assert x.grad is not None
    parameters = module.named_parameters()
    gradients = {f"the gradient of {name}": weight.grad for name, weight in parameters if weight.grad is not None}
    return {"the output": y.detach(), "the gradient of the input": x.grad, **gradients}

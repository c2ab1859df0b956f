"""Promise 9, of bfloat16: outputs stay within 2% (relative root mean square) of those in the wider dtype."""

import torch

from seqloom.contracts.finding import Broken, Largest, promise
from seqloom.contracts.subject import Subject, draw, forward

BOUND = 2e-2


@promise("bfloat16")
def bfloat16(subject: Subject) -> Largest:
    """The forward reads and writes bfloat16, with the same rounded weights within the bound."""
    exact = subject.module(subject.contexts[-1])
    small = subject.build(subject.contexts[-1], torch.bfloat16)
    T = subject.fits(exact, (subject.contexts[-1] or 16) + 5)
    x = draw(4, T, subject.dim, dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in small.named_parameters():
            exact.get_parameter(name).copy_(parameter)
        expected = forward(exact, x.to(subject.dtype)).double()
        result = forward(small, x)
    if result.dtype != torch.bfloat16:
        raise Broken(f"bfloat16 in, {str(result.dtype).removeprefix('torch.')} out")
    worst = Largest(subject.scale)
    worst.note(float((result.double() - expected).norm() / expected.norm()), BOUND, "the relative error is")
    worst.settle()
    return worst

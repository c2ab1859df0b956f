"""Promise 8, of first derivatives: the gradients of the input and of every parameter are the slopes of the output.

Each tensor is moved a little in a random direction, as in the fast mode of `torch.autograd.gradcheck`:

    s(ε) = Σ weights · output of (tensor + ε · direction)      weights, direction: random
    Σ gradient · direction = (s(ε) - s(-ε)) / 2ε

In float64 one direction tells a wrong gradient from a right one. Where a layer computes in float32, differences are
coarse, and 8 directions are compared together. A difference across which the layer bends or chooses otherwise (a ReLU,
a top-k) is no slope, so several ε are tried: a gradient is wrong where two of them give one slope, and it another.
Where no two agree, as for choices in float32, the promise cannot be tested. Choices of our mixers are held fixed.
"""

import math
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, NotApplicable, promise
from seqloom.contracts.readings import EARLIER, INPUT, NoGradient, Reading, differentiate_output, is_required, readings
from seqloom.contracts.subject import Subject, draw
from seqloom.ops.bucketing import choices


@final
@dataclass(frozen=True)
class Differences:
    """How slopes are measured in one dtype."""

    steps: tuple[float, ...]
    """relative to the size of the tensor, in the order in which they are tried"""
    directions: int
    allowed: float
    """the error of a slope relative to its size"""


BY_DTYPE = {
    torch.float64: Differences((1e-6, 1e-7, 1e-5), 1, 1e-5),
    torch.float32: Differences((3e-3, 1e-2, 1e-3), 8, 5e-2),
}
LEAST = 0.1
"""the size of a tensor of smaller numbers, which may begin at 0"""
ROUNDING = 32
"""the rounding error of an output in eps, whose effect on a difference is allowed"""


@promise("gradients")
def gradients(subject: Subject) -> Largest:
    """Gradients of the input and every parameter are slopes of the output; in pieces, also through the state."""
    if subject.working not in BY_DTYPE:
        dtype = str(subject.working).removeprefix("torch.")
        raise NotApplicable(f"differences in {dtype} are too coarse: give --dtype float32, or a --reference")
    worst = Largest(0.0)
    unsettled: list[str] = []
    tried: dict[str, list[str]] = {}
    for reading in readings(subject):
        module = subject.module(reading.context)
        try:
            measured = _Measured(subject, reading, module)
        except NoGradient as error:
            if is_required(reading, module):
                raise Broken(f"{reading.name}: {error}") from error
            tried[reading.verb] = [f"0: {error}"]  # an error, and no wrong number, for who trains through it
            continue
        _compare(measured, reading, worst, unsettled)
        tried.setdefault(reading.verb, []).append(reading.lengths)
    if unsettled:
        raise NotApplicable(
            f"differences do not converge, as where a layer chooses: compare it with a --reference ({unsettled[0]})"
        )
    worst.tried = ", ".join(f"{verb} over {' and '.join(lengths)}" for verb, lengths in tried.items())
    return worst


def _compare(measured: "_Measured", reading: Reading, worst: Largest, unsettled: list[str]) -> None:
    """Compares all slopes of a reading; adds those of which no two differences agree to `unsettled`.

    Broken where one is wrong.
    """
    wrong: dict[str, _Slopes] = {}
    for name in measured.tensors:
        slopes = measured.slopes(name)
        if slopes is None:
            unsettled.append(f"{reading.name}: {name}")
        elif slopes.share > 1:
            wrong[name] = slopes
        else:
            error = slopes.share * measured.allowed  # relative; of a gradient of rounding alone, to what it may be
            worst.note(error, measured.allowed, f"the gradient of {name} is off by")
    if wrong:
        first, *others = sorted(wrong, key=lambda name: wrong[name].share, reverse=True)
        also = f"; wrong too: {', '.join(others)}" if others else ""
        raise Broken(f"{reading.name}: the gradient of {first} is wrong: {wrong[first]}{also}", wrong[first].error)


@final
@dataclass(frozen=True)
class _Slopes:
    """Slopes of one tensor in random directions."""

    by_backward: Tensor
    by_differences: Tensor
    sizes: Tensor
    """how large the slopes are by size of gradient and direction, whatever cancels"""
    allowed: float
    """absolute, of their root mean square"""

    @property
    def share(self) -> float:
        """The error as a share of what is allowed; NaN is larger than any."""
        difference = _rms(self.by_backward - self.by_differences)
        return difference / self.allowed if math.isfinite(difference) else math.inf

    def agrees(self, other: "_Slopes") -> bool:
        """Whether the differences of another step are these."""
        return _rms(self.by_differences - other.by_differences) <= self.allowed + other.allowed

    @property
    def error(self) -> float:
        """The error relative to the size of the slopes."""
        return _rms(self.by_backward - self.by_differences) / max(_rms(self.sizes), 1e-30)

    def __str__(self) -> str:
        ways = f"{self.by_backward[0]:.6g} in a random direction, by differences {self.by_differences[0]:.6g}"
        return f"its slope is {ways}"


@final
class _Measured:
    """A reading with its gradients, and its slopes by differences. NoGradient where it has none."""

    def __init__(self, subject: Subject, reading: Reading, module: nn.Module) -> None:
        self._how = BY_DTYPE[subject.working]
        self.allowed = self._how.allowed
        self._eps = subject.eps
        self._reading, self._module = reading, module
        parameters = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
        self._inputs = {name: x.clone().requires_grad_() for name, x in reading.inputs().items()}
        self.tensors: dict[str, Tensor] = {**self._inputs, **parameters}
        run = partial(reading.run, module, *self._read_from())
        with choices.record_choices() as self._choices:
            y, self._weights, found = differentiate_output(run, list(self.tensors.values()))
        self._gradients = dict(zip(self.tensors, found, strict=True))
        self._noise = ROUNDING * self._eps * float((y.detach().double() * self._weights).norm())

    def slopes(self, name: str) -> _Slopes | None:
        """The slopes of a tensor, by the first step that confirms them, or by one of two that agree; else None."""
        tried: list[_Slopes] = []
        for step in self._how.steps:
            slopes = self._at(name, step)
            if slopes.share <= 1 or any(slopes.agrees(other) for other in tried):
                return slopes
            tried.append(slopes)
        return None

    def _at(self, name: str, step: float) -> _Slopes:
        tensor, gradient = _real(self.tensors[name]), _real(self._gradients[name]).double()
        size = max(LEAST, float(tensor.detach().double().square().mean().sqrt())) if tensor.numel() else LEAST
        rows: list[tuple[float, float, float]] = []
        for number in range(self._how.directions):
            direction = size * draw(*tensor.shape, seed=10 + number, device=tensor.device)
            products = gradient * direction
            rows.append((float(products.sum()), self._difference(tensor, direction, step), float(products.norm())))
        backward, differences, norms = torch.tensor(rows, dtype=torch.float64).T
        sizes = torch.maximum(norms, torch.maximum(backward.abs(), differences.abs()))
        allowed = self._how.allowed * _rms(sizes) + self._noise / step
        return _Slopes(backward, differences, sizes, allowed)

    @torch.no_grad()
    def _difference(self, tensor: Tensor, direction: Tensor, step: float) -> float:
        """The slope along the direction by two readings, after which the tensor is as it was."""
        before = tensor.detach().clone()
        sums = []
        for sign in (1, -1):
            tensor.copy_(before.double() + sign * step * direction)
            with choices.fix_choices(self._choices):
                y = self._reading.run(self._module, *self._read_from())
                sums.append(float((y.double() * self._weights).sum()))
        tensor.copy_(before)
        return (sums[0] - sums[1]) / (2 * step)

    def _read_from(self) -> tuple[Tensor, Tensor]:
        return self._inputs[INPUT], self._inputs.get(EARLIER, self._reading.earlier)


def _real(tensor: Tensor) -> Tensor:
    """The tensor, or its real and imaginary parts: a view."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _rms(values: Tensor) -> float:
    return float(values.square().mean().sqrt())

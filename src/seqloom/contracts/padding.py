"""Promise 4: a dropped token is as if it had never been written.

Mixers keep it wherever tokens are dropped, and write 0 there. Other layers that take a mask have two promises: for
tokens dropped at either end of a row (`padding`), and within it (`gaps`).
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from seqloom.contracts.finding import Broken, Largest, NotApplicable, largest, promise
from seqloom.contracts.subject import Subject, at_each_size, draw, forward
from seqloom.core.mixer import Mixer
from seqloom.mixers.layer_arguments import MASKS, mask_argument

NOISE = (math.nan, 1e6, math.inf)
ROWS = 7


@promise("padding")
def padding(subject: Subject) -> Largest:
    """Tokens dropped at the beginning or the end of a row change no other output."""
    return _check_masks(subject, _at_the_ends)


@promise("gaps")
def gaps(subject: Subject) -> Largest:
    """Tokens dropped anywhere change no other output."""
    return _check_masks(subject, anywhere)


def anywhere(T: int) -> Tensor:
    """(7, T): all kept, none kept, only the last, only the first, then random ones."""
    keep = torch.rand(ROWS, T, generator=torch.Generator().manual_seed(5)) < 0.6
    for row, span in enumerate((slice(0, T), slice(0, 0), slice(T - 1, T), slice(0, 1))):
        keep[row] = False
        keep[row, span] = True
    return keep


def _at_the_ends(T: int) -> Tensor:
    """(7, T): all kept, some dropped at the end, some at the beginning."""
    positions = torch.arange(T)
    dropped_left = torch.tensor([0, 0, 0, 0, 1, T // 2, T - 1])[:, None]
    dropped_right = torch.tensor([0, 1, T // 2, T - 1, 0, 0, 0])[:, None]
    return (positions >= dropped_left) & (positions < T - dropped_right)


def _check_masks(subject: Subject, masks: Callable[[int], Tensor]) -> Largest:
    """Compares outputs, and in a mixer gradients, under the masks (7, T) that `masks` gives for T tokens."""
    if mask_argument(subject.module()) is None:
        raise NotApplicable(f"its forward takes no mask: an argument {', '.join(MASKS)}")
    worst = Largest(subject.scale)

    def read(module: nn.Module, T: int) -> None:
        x = subject.draw_with_repeats(ROWS, T)
        keep = masks(T).to(x.device)
        y = _check_values(subject, module, x, keep, worst)
        _check_noise(subject, module, x, keep, y)
        if isinstance(module, Mixer):
            _check_gradients(subject, module, x, keep)

    at_each_size(read, subject, 4, 5)
    return worst


@torch.no_grad()
def _check_values(subject: Subject, module: nn.Module, x: Tensor, keep: Tensor, worst: Largest) -> Tensor:
    """Returns the outputs, after comparing them with those of the kept tokens alone."""
    y = forward(module, x, keep)
    worst.close(forward(module, x, torch.ones_like(keep)), forward(module, x), subject.rounding, "with nothing dropped")
    for row in range(ROWS):
        real = keep[row]
        if real.any():
            expected = forward(module, x[row, real][None])[0]
            worst.close(y[row][real], expected, subject.rounding, f"row {row}, {_describe_mask(real)},")
            alone = forward(module, x[row : row + 1], keep[row : row + 1])[0]
            worst.close(alone[real], expected, subject.rounding, f"row {row} at batch 1, {_describe_mask(real)},")
    worst.settle()
    if isinstance(module, Mixer) and not bool((y[~keep] == 0).all()):
        raise Broken("outputs at dropped positions are not 0", float(y[~keep].abs().max()))
    return y


@torch.no_grad()
def _check_noise(subject: Subject, module: nn.Module, x: Tensor, keep: Tensor, y: Tensor) -> None:
    """The values of a dropped token are not read: bit for bit in a mixer, where they may be NaN."""
    for noise in NOISE if isinstance(module, Mixer) else (1e6,):
        result = forward(module, torch.where(keep[..., None], x, noise), keep)
        if isinstance(module, Mixer) and not torch.equal(result, y):
            raise Broken(f"{noise} in dropped positions changes the output")
        with largest(subject.scale) as worst:
            worst.close(result[keep], y[keep], subject.rounding, f"with {noise:g} in dropped positions, the output")


def _check_gradients(subject: Subject, module: nn.Module, x: Tensor, keep: Tensor) -> None:
    """Dropped inputs have no gradient, and their values change none."""
    gradients = []
    for noise in (0.5, math.nan):
        module.zero_grad()
        noisy = torch.where(keep[..., None], x, noise).requires_grad_()
        (forward(module, noisy, keep) * draw(*x.shape, seed=2, dtype=x.dtype, device=x.device)).sum().backward()
        assert noisy.grad is not None
        if not bool((noisy.grad[~keep] == 0).all()):
            raise Broken(f"dropped inputs that hold {noise} have gradients", float(noisy.grad[~keep].abs().max()))
        gradients.append({"the input": noisy.grad, **_gradients(module)})
    expected, result = gradients
    with largest(subject.scale) as worst:
        for name, gradient in expected.items():
            worst.close(
                result[name], gradient, subject.rounding, f"with nan in dropped positions, the gradient of {name}"
            )


def _gradients(module: nn.Module) -> dict[str, Tensor]:
    """Copies of the gradients of all parameters that have one."""
    return {name: parameter.grad.clone() for name, parameter in module.named_parameters() if parameter.grad is not None}


def _describe_mask(keep: Tensor) -> str:
    return "keeping " + "".join("x" if real else "." for real in keep.tolist())

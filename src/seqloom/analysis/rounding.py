"""How far a mixer's float32 outputs and gradients are from its float64 ones, with the same weights and inputs.

    error = max |result - exact| / max |exact|        in eps of float32, 1.2e-7; for the output and for each gradient

A gradient whose largest value is below a hundredth of the largest of all gradients is measured against that hundredth:
some gradients are 0 by symmetry, and what is left of them is rounding alone. `MixerConfig.rounding` is the bound.
Mixers with buckets use the same buckets in both: a token on the border of two could go into either, and the difference
would not be a rounding error.
"""

import copy

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.ops.bucketing import choices

EPS = torch.finfo(torch.float32).eps
SMALL = 0.01
"""the share of the largest of all gradients that a smaller gradient is measured against"""


def errors(mixer: Mixer, T: int, seed: int = 0) -> dict[str, float]:
    """The errors in eps by name: `output`, `input` (its gradient), and each parameter's gradient by its name.

    One row of T normal tokens is read, and the outputs are weighted with normal numbers to have gradients. The mixer is
    left as it is. NaN where a number is not finite.
    """
    generator = torch.Generator().manual_seed(seed)
    x, weights = torch.randn(2, 1, T, mixer.dim, generator=generator)
    single = copy.deepcopy(mixer).float()
    with choices.record_choices() as recorded_choices:
        exact = _read(copy.deepcopy(single).double(), x.double(), weights.double())
    with choices.fix_choices(recorded_choices):
        result = _read(single, x, weights)
    largest = max(float(tensor.abs().max()) for name, tensor in exact.items() if name != "output")
    return {
        name: _error(result[name], tensor, 0.0 if name == "output" else SMALL * largest)
        for name, tensor in exact.items()
    }


def worst(mixer: Mixer, T: int, seed: int = 0) -> tuple[float, str]:
    """The largest of `errors`, and whose it is; NaN is larger than any."""
    name, error = max(errors(mixer, T, seed).items(), key=lambda item: (item[1] != item[1], item[1]))
    return error, name


def _read(mixer: Mixer, x: Tensor, weights: Tensor) -> dict[str, Tensor]:
    """The output and all gradients of the sum of the weighted outputs."""
    x = x.clone().requires_grad_()
    y = mixer(x)
    parameters = {name: parameter for name, parameter in mixer.named_parameters() if parameter.requires_grad}
    slopes = torch.autograd.grad(y, [x, *parameters.values()], weights, allow_unused=True, materialize_grads=True)
    return {"output": y.detach(), "input": slopes[0], **dict(zip(parameters, slopes[1:], strict=True))}


def _error(result: Tensor, exact: Tensor, smallest_scale: float) -> float:
    """The largest difference in eps, relative to the largest exact value, or to `smallest_scale` if that is larger."""
    difference = float((result.double() - exact).abs().max())
    return difference / max(float(exact.abs().max()), smallest_scale, torch.finfo(torch.float64).tiny) / EPS

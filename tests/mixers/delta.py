"""Variants of the delta rule with drawn weights, and everything that two of them compute."""

from typing import Any

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config

DIM, T = 8, 11


def built(**settings: Any) -> Mixer:
    """A mixer with drawn weights, taps and rates included."""
    mixer = mixer_config(settings).build(DIM, 32).double()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return mixer


def inputs() -> Tensor:
    return torch.randn(2, T, DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def everything(mixer: Mixer) -> list[Tensor]:
    """The outputs of a whole sequence, of pieces and tokens, and all gradients, by name."""
    x = inputs().requires_grad_()
    y = mixer(x)
    parameters = dict(sorted(mixer.named_parameters()))
    slopes = torch.autograd.grad(y.square().sum(), [x, *parameters.values()])
    first, state = mixer.extend(x[:, :5], mixer.start(2))
    tokens = [first]
    for t in range(5, T):
        token, state = mixer.step(x[:, t], state)
        tokens.append(token[:, None])
    return [y, torch.cat(tokens, 1), *slopes]


def same(one: Mixer, known: Mixer) -> None:
    """But for rounding: the known mixers form their keys in C, which adds in another order."""
    for found, wanted in zip(everything(one), everything(known), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13 * float(wanted.detach().abs().max()))

"""Mixtures of Gaussians: a distribution of each number that is predicted.

    p(y) = Σ_k π_k N(y; μ_k, σ_k²)         π = softmax(a),   μ_k,   σ_k = e^{s_k},   of outputs [a, μ, s] of a number
    E y = Σ_k π_k μ_k

Source: Bishop, Mixture Density Networks, 1994, Eq. 22 to 29. What differs: s is at least -7, so that a number that is
always predicted exactly has a finite density.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor

LEAST = -7.0
"""the smallest s: σ is at least 0.0009 of a number's deviation"""


def parts(outputs: Float[Tensor, "*N Y*3*K"], targets: int) -> tuple[Tensor, Tensor, Tensor]:
    """log π, μ and s (…, Y, K) of outputs (…, 3 K Y), in float32 or better."""
    wide = outputs.to(torch.promote_types(outputs.dtype, torch.float32)).unflatten(-1, (targets, 3, -1))
    a, mean, s = wide.unbind(-2)
    return a.log_softmax(-1), mean, s.clamp(min=LEAST)


def log_density(outputs: Float[Tensor, "*N P"], y: Float[Tensor, "*N Y"]) -> Float[Tensor, "*N Y"]:
    """ln p(y) of each number y (…, Y), in nats."""
    log_share, mean, s = parts(outputs, y.shape[-1])
    z = (y[..., None] - mean) * (-s).exp()
    log_each = log_share - z.square() / 2 - s - math.log(2 * math.pi) / 2
    return log_each.logsumexp(-1)


def mean_of(outputs: Float[Tensor, "*N P"], targets: int) -> Float[Tensor, "*N Y"]:
    """E y of each of Y = `targets` numbers."""
    log_share, mean, _ = parts(outputs, targets)
    return (log_share.exp() * mean).sum(-1)


def draw(outputs: Float[Tensor, "*N P"], targets: int, generator: torch.Generator) -> Float[Tensor, "*N Y"]:
    """A number y drawn from each distribution, independently of the others; random numbers are made on the CPU."""
    log_share, mean, s = parts(outputs, targets)
    uniform = torch.rand(log_share.shape[:-1], generator=generator, dtype=torch.float64).to(mean.device)
    chosen = (log_share.exp().cumsum(-1) < uniform[..., None]).sum(-1, keepdim=True).clamp(max=mean.shape[-1] - 1)
    normal = torch.randn(chosen.shape, generator=generator, dtype=torch.float64).to(mean)
    drawn = mean.gather(-1, chosen) + s.gather(-1, chosen).exp() * normal
    return drawn[..., 0]

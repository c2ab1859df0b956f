"""A token drawn from logits z (W): temperature, top-k and top-p, renormalized.

    p = softmax(z / temperature)
    top-k   the k largest p stay;  ties go to the lower id
    top-p   of these, the fewest largest whose sum reaches top_p stay
    id = the first whose cumulative p exceeds u,   u ~ U[0, 1)

Temperature 0 is greedy: p is 1 at the largest logit, at the lowest id of ties. All of it is in float64 on the CPU, so
that a seed gives the same text on any device, as far as the logits agree.

Source: top-k is Fan et al., arXiv:1805.04833; top-p is Holtzman et al., arXiv:1904.09751. Applying top-p
after top-k is the convention of later libraries.
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seqloom.core.arguments import described
from seqloom.core.config import Config


@final
class Sampling(Config):
    """How a token is drawn. `seqloom.core.config.read(Sampling, {…})` raises in one line for values out of range."""

    temperature: float = Field(1.0, ge=0, description="divides the logits; 0 takes the likeliest token")
    top_k: int | None = Field(None, ge=1, description="draws from the k likeliest tokens only")
    top_p: float | None = Field(
        None, gt=0, le=1, description="draws from the fewest tokens whose probability reaches p"
    )


def probabilities(logits: Float[Tensor, "B W"], sampling: Sampling) -> Float[Tensor, "B W"]:
    """The distribution that a token is drawn from: rows that sum to 1, float64 on the CPU.

    Raises ValueError where a row of logits has no distribution: NaN, +∞, or only -∞; ValueError or TypeError where an
    argument does not fit.
    """
    _check(logits, sampling)
    logits = logits.detach().to("cpu", torch.float64)
    highest, likeliest = logits.max(1, keepdim=True)
    if not bool(highest.isfinite().all()):
        raise ValueError("the model's logits are not finite, so no token can be drawn: load an earlier checkpoint")
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(1, likeliest, 1.0)
    p = ((logits - highest) / sampling.temperature).softmax(1)  # shifted first: a tiny temperature cannot overflow
    if sampling.top_k is None and sampling.top_p is None:
        return p
    _, order = logits.sort(stable=True, dim=1, descending=True)
    ranked = p.gather(1, order)
    if sampling.top_k is not None:
        ranked[:, sampling.top_k :] = 0.0
        ranked /= ranked.sum(1, keepdim=True)
    if sampling.top_p is not None and sampling.top_p < 1:
        before = ranked.cumsum(1).roll(1, 1)
        before[:, 0] = 0.0
        ranked[before >= sampling.top_p * (1 - 1e-12)] = 0.0  # a sum that reaches p but for rounding reaches it
        ranked /= ranked.sum(1, keepdim=True)
    return torch.zeros_like(p).scatter_(1, order, ranked)


def draw(logits: Float[Tensor, "B W"], sampling: Sampling, generator: torch.Generator) -> Int[Tensor, " B"]:
    """One id per row, on the device of the logits. `generator` is on the CPU; greedy does not use it."""
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise TypeError(f"generator is a torch.Generator of the CPU, not {described(generator)}")
    p = probabilities(logits, sampling)
    if sampling.temperature == 0:
        return p.argmax(1).to(logits.device)
    cumulative = p.cumsum(1)
    u = torch.rand(len(p), 1, dtype=torch.float64, generator=generator)
    # right=True passes over ids of probability 0, whose cumulative sum is their predecessor's
    ids = torch.searchsorted(cumulative, u * cumulative[:, -1:], right=True)[:, 0]
    return ids.to(logits.device)


def _check(logits: Any, sampling: Any) -> None:
    """TypeError or ValueError unless logits are a floating-point tensor (B, W), and `sampling` is a Sampling."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits are a tensor (B, W), not {described(logits)}")
    if logits.ndim != 2 or logits.shape[1] == 0 or not logits.is_floating_point() or logits.is_meta:
        raise ValueError(f"logits are floating (B, W) with values, W at least 1, not {described(logits)}")
    if not isinstance(sampling, Sampling):
        raise TypeError(f"sampling is a seqloom.generation.sample.Sampling, not {described(sampling)}")

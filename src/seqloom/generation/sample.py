"""A token drawn from logits z (W): sharpened, cut to the likeliest, renormalised.

    p = softmax(z / temperature)
    top-k   the k largest p stay;  of equal ones the lower id first
    top-p   of what is left, the fewest largest whose sum reaches top_p stay
    id = the first whose cumulated p exceeds u,   u ~ U[0, 1)

Temperature 0 is greedy: all of p on the largest logit, the lowest id of equal ones. Everything happens in float64 on
the CPU, so that a seed gives the same text on any device, as far as the logits agree.

Source: top-k is Fan et al., arXiv:1805.04833; top-p is Holtzman et al., arXiv:1904.09751. That top-p applies to what
top-k left is the custom of later libraries.
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
    """How a token is drawn. `seqloom.core.config.read(Sampling, {…})` says in one line what is out of range."""

    temperature: float = Field(1.0, ge=0, description="divides the logits; 0 takes the likeliest token")
    top_k: int | None = Field(None, ge=1, description="draws from the k likeliest tokens only")
    top_p: float | None = Field(
        None, gt=0, le=1, description="draws from the fewest tokens whose probability reaches p"
    )


def probabilities(logits: Float[Tensor, "B W"], sampling: Sampling) -> Float[Tensor, "B W"]:
    """The law that a token is drawn from: rows that sum to 1, float64 on the CPU.

    Raises ValueError where a row of logits is no law: NaN, +∞, or nothing but -∞; and, or TypeError, where an argument
    does not fit.
    """
    _check(logits, sampling)
    logits = logits.detach().to("cpu", torch.float64)
    highest, likeliest = logits.max(1, keepdim=True)
    if not bool(highest.isfinite().all()):
        raise ValueError("the model's logits are not finite, so no token can be drawn: load an earlier checkpoint")
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(1, likeliest, 1.0)
    law = ((logits - highest) / sampling.temperature).softmax(1)  # shifted first: a tiny temperature cannot overflow
    if sampling.top_k is None and sampling.top_p is None:
        return law
    _, order = logits.sort(stable=True, dim=1, descending=True)
    sorted_law = law.gather(1, order)
    if sampling.top_k is not None:
        sorted_law[:, sampling.top_k :] = 0.0
        sorted_law /= sorted_law.sum(1, keepdim=True)
    if sampling.top_p is not None and sampling.top_p < 1:
        before = sorted_law.cumsum(1).roll(1, 1)
        before[:, 0] = 0.0
        sorted_law[before >= sampling.top_p * (1 - 1e-12)] = 0.0  # a sum that reaches p but for rounding reaches it
        sorted_law /= sorted_law.sum(1, keepdim=True)
    return torch.zeros_like(law).scatter_(1, order, sorted_law)


def draw(logits: Float[Tensor, "B W"], sampling: Sampling, generator: torch.Generator) -> Int[Tensor, " B"]:
    """One id a row, on the device of the logits. `generator` is of the CPU; greedy takes nothing from it."""
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise TypeError(f"generator is a torch.Generator of the CPU, not {described(generator)}")
    law = probabilities(logits, sampling)
    if sampling.temperature == 0:
        return law.argmax(1).to(logits.device)
    cumulated = law.cumsum(1)
    u = torch.rand(len(law), 1, dtype=torch.float64, generator=generator)
    # right=True passes over ids of probability 0, whose cumulated sum is their predecessor's
    ids = torch.searchsorted(cumulated, u * cumulated[:, -1:], right=True)[:, 0]
    return ids.to(logits.device)


def _check(logits: Any, sampling: Any) -> None:
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits are a tensor (B, W), not {described(logits)}")
    if logits.ndim != 2 or logits.shape[1] == 0 or not logits.is_floating_point() or logits.is_meta:
        raise ValueError(f"logits are floating (B, W) with values, W at least 1, not {described(logits)}")
    if not isinstance(sampling, Sampling):
        raise TypeError(f"sampling is a seqloom.generation.sample.Sampling, not {described(sampling)}")

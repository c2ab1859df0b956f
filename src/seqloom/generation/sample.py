"""A token drawn from logits z (W): temperature, top-k, top-p and min-p, renormalized.

    z = penalize(z)                                    `seqloom.generation.penalties`, where there are penalties
    p = softmax(z / temperature)
    top-k   the k largest p stay;  ties go to the lower id
    top-p   of these, the fewest largest whose sum reaches top_p stay
    min-p   of these, those stay with p ≥ min_p · max p
    id = the first whose cumulative p exceeds u,   u ~ U[0, 1)

Temperature 0 is greedy: p is 1 at the largest logit, at the lowest id of ties. All of it is in float64 on the CPU, so
that a seed gives the same text on any device, as far as the logits agree.

Source: top-k is Fan et al., arXiv:1805.04833; top-p is Holtzman et al., arXiv:1904.09751; min-p is Nguyen et al.,
arXiv:2407.01082. Applying them in this order is the convention of later libraries.
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor

from seqloom.core.arguments import describe_value
from seqloom.core.config import Config
from seqloom.core.largest import largest
from seqloom.core.seeds import require_seed
from seqloom.generation.penalties import Seen, penalize

FEW = 256
"""the most tokens that top-p looks at before it sorts all"""


@final
class Sampling(Config):
    """How a token is drawn. `seqloom.core.config.read(Sampling, {…})` raises in one line for values out of range."""

    temperature: float = Field(1.0, ge=0, description="divides the logits; 0 takes the likeliest token")
    top_k: int | None = Field(None, ge=1, description="draws from the k likeliest tokens only")
    top_p: float | None = Field(
        None, gt=0, le=1, description="draws from the fewest tokens whose probability reaches p"
    )
    min_p: float | None = Field(
        None, ge=0, le=1, description="draws from the tokens of at least this share of the largest probability"
    )
    repetition_penalty: float = Field(
        1.0,
        gt=0,
        description="divides positive logits of the tokens so far, prompt included, and multiplies negative ones",
    )
    presence_penalty: float = Field(0.0, description="is subtracted from the logits of the tokens written so far")
    seed: int = Field(0, description="the same seed gives the same text")

    @model_validator(mode="before")
    @classmethod
    def _seeds(cls, values: Any) -> Any:
        if isinstance(values, dict):
            require_seed(values.get("seed", 0))
        return values

    @property
    def penalizes(self) -> bool:
        """Whether a token's probability depends on which tokens the text has."""
        return self.repetition_penalty != 1 or self.presence_penalty != 0

    def generator(self) -> torch.Generator:
        """A generator of this seed, on the CPU."""
        return torch.Generator().manual_seed(self.seed)


def probabilities(logits: Float[Tensor, "B W"], sampling: Sampling, seen: Seen | None = None) -> Float[Tensor, "B W"]:
    """The distribution that a token is drawn from: rows that sum to 1, float64 on the CPU.

    Penalties are of the tokens that were `seen`; none unless given. Raises ValueError where a row of logits has no
    distribution: NaN, +∞, or only -∞; ValueError or TypeError where an argument does not fit.
    """
    _check(logits, sampling, seen)
    logits = logits.detach().to("cpu", torch.float64)
    if seen is not None:
        logits = penalize(logits, seen, sampling.repetition_penalty, sampling.presence_penalty)
    highest, likeliest = logits.max(1, keepdim=True)
    if not bool(highest.isfinite().all()):
        raise ValueError("the model's logits are not finite, so no token can be drawn: load an earlier checkpoint")
    if sampling.temperature == 0:
        return torch.zeros_like(logits).scatter_(1, likeliest, 1.0)
    p = ((logits - highest) / sampling.temperature).softmax(1)  # shifted first: a tiny temperature cannot overflow
    if sampling.top_k is not None or sampling.top_p is not None:
        p = _cut(p, logits, sampling)
    if sampling.min_p is not None:
        p[p < _bound_of(sampling.min_p) * p.amax(1, keepdim=True)] = 0.0
        p /= p.sum(1, keepdim=True)
    return p


def _cut(p: Float[Tensor, "B W"], logits: Float[Tensor, "B W"], sampling: Sampling) -> Float[Tensor, "B W"]:
    """The distribution after top-k and top-p."""
    ranked, order = _rank(p, logits, sampling)
    if sampling.top_k is not None:
        ranked = ranked / ranked.sum(1, keepdim=True)
    if sampling.top_p is not None and sampling.top_p < 1:
        before = ranked.cumsum(1).roll(1, 1)
        before[:, 0] = 0.0
        ranked = torch.where(before < _bound_of(sampling.top_p), ranked, 0.0)
        ranked = ranked / ranked.sum(1, keepdim=True)
    return torch.zeros_like(p).scatter_(1, order, ranked)


def _rank(
    p: Float[Tensor, "B W"], logits: Float[Tensor, "B W"], sampling: Sampling
) -> tuple[Float[Tensor, "B K"], Int[Tensor, "B K"]]:
    """The largest p of each row, in descending order, and their ids; as many as can stay.

    For top-p that is seldom more than `FEW`, and only where they do not reach it all are sorted, which takes longer.
    """
    W = p.shape[1]
    if sampling.top_k is not None and sampling.top_k <= W // 4:
        order = _likeliest(logits, sampling.top_k)
        return p.gather(1, order), order
    if sampling.top_k is None and W >= 4 * FEW:
        order = _likeliest(logits, FEW)
        ranked = p.gather(1, order)
        if bool((ranked.sum(1) >= _bound_of(sampling.top_p or 1.0)).all()):
            return ranked, order
    _, order = logits.sort(stable=True, dim=1, descending=True)
    order = order[:, : sampling.top_k]
    return p.gather(1, order), order


def _likeliest(logits: Float[Tensor, "B W"], count: int) -> Int[Tensor, "B K"]:
    """The ids of the largest logits, in descending order; of equal ones the lower id."""
    values, ids = logits.topk(count + 1, 1)
    if bool((values[:, 1:] == values[:, :-1]).any()):  # which topk takes in any order
        return largest(logits, count)[1]
    return ids[:, :count]


def _bound_of(share: float) -> float:
    """A sum that reaches a share but for rounding reaches it."""
    return share * (1 - 1e-12)


def draw(
    logits: Float[Tensor, "B W"], sampling: Sampling, generator: torch.Generator, seen: Seen | None = None
) -> Int[Tensor, " B"]:
    """One id per row, on the device of the logits. `generator` is on the CPU; greedy does not use it."""
    if not isinstance(generator, torch.Generator) or generator.device.type != "cpu":
        raise TypeError(f"generator is a torch.Generator of the CPU, not {describe_value(generator)}")
    p = probabilities(logits, sampling, seen)
    if sampling.temperature == 0:
        return p.argmax(1).to(logits.device)
    u = torch.rand(len(p), 1, dtype=torch.float64, generator=generator)
    return pick(p, u).to(logits.device)


def pick(p: Float[Tensor, "B W"], u: Float[Tensor, "B 1"]) -> Int[Tensor, " B"]:
    """The first id of each row whose cumulative weight exceeds u, as a share of all; weights need not sum to 1."""
    cumulative = p.cumsum(1)
    # right=True passes over ids of weight 0, whose cumulative sum is their predecessor's
    ids = torch.searchsorted(cumulative, u * cumulative[:, -1:], right=True)[:, 0]
    return ids.clamp(max=p.shape[1] - 1)


def _check(logits: Any, sampling: Any, seen: Any) -> None:
    """TypeError or ValueError unless logits are a floating-point tensor (B, W), and the others are of their class."""
    if not isinstance(logits, Tensor):
        raise TypeError(f"logits are a tensor (B, W), not {describe_value(logits)}")
    if logits.ndim != 2 or logits.shape[1] == 0 or not logits.is_floating_point() or logits.is_meta:
        raise ValueError(f"logits are floating (B, W) with values, W at least 1, not {describe_value(logits)}")
    require_sampling(sampling)
    if seen is not None and not (isinstance(seen, Seen) and seen.read.shape == seen.written.shape == logits.shape):
        raise TypeError(f"seen is a seqloom.generation.penalties.Seen of these rows, not {describe_value(seen)}")


def require_sampling(sampling: Any) -> Sampling:
    """The settings; TypeError unless they are a Sampling."""
    if not isinstance(sampling, Sampling):
        raise TypeError(f"sampling is a seqloom.generation.sample.Sampling, not {describe_value(sampling)}")
    return sampling

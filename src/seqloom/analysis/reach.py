"""The reach of a mixer: how much each output changes with each input; and the longest reach of a whole model.

    reach_ts = |∂y_t / ∂x_s|      the Frobenius norm of D × D slopes; over several rows, their root mean square
    tokens_back = Σ_layers tokens_back      m N of Transformer-XL, (m + c · cm) N of Compressive Transformer

All of them from few backward passes: a row does not depend on the others, so that in a batch of copies of one row every
copy gives the slope of one number of one output. For wide mixers random signs v are used: the mean of |vᵀJ|² is |J|².
"""

import math
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from seqloom.core.layered import LayeredConfig
from seqloom.core.mixer import Mixer
from seqloom.core.model_config import ModelConfig
from seqloom.core.seeds import require_seed
from seqloom.core.shapes import Stream
from seqloom.core.view import View

COPIES = 1 << 20
"""the most numbers that a batch of copies of the row may hold"""
DECADES, PROBES, SHOWN = 3, 8, 32
"""of a view: powers of ten on its scale, random directions per position, most tokens"""


def reach(mixer: Mixer, T: int, *, rows: int = 1, seed: int = 0) -> Float[Tensor, "T T"]:
    """|∂y_t/∂x_s| at [t, s], where the mixer reads `rows` rows of T tokens of standard normal numbers.

    The numbers are a function of the seed and the sizes. ValueError for less than one token or row.
    """
    if T < 1 or rows < 1:
        raise ValueError(f"a reach map is of 1 or more tokens and rows, not of {T} and {rows}")
    require_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, T, mixer.dim, generator=generator, dtype=torch.float64)
    return reach_of(mixer, x.to(mixer.device, mixer.dtype))


def reach_of(mixer: nn.Module, x: Stream, *, probes: int | None = None, seed: int = 0) -> Float[Tensor, "T T"]:
    """|∂y_t/∂x_s| at [t, s], where the mixer, or its `Reading` in a model, reads x (B, T, D).

    It is exact, or estimated from `probes` directions each: the relative error is then about √(1 / (2·probes)) where
    ∂y_t/∂x_s has rank 1, less for higher ranks. No gradient of a parameter is changed. ValueError for fewer than one
    probe.
    """
    if probes is not None and probes < 1:
        raise ValueError(f"a slope is estimated from 1 or more probes, not from {probes}")
    T, D = x.shape[1:]
    frozen = {name: weights.detach() for name, weights in mixer.named_parameters()}
    directions = _directions(T, D, probes, seed).to(x)
    probes_per_token = directions.shape[1]
    copies = max(1, COPIES // max(T * D, 1))
    squares = torch.zeros(T, T, dtype=torch.float64)
    all_directions = directions.flatten(0, 1)  # (T · probes, D)
    for row in x.detach():
        for first in range(0, len(all_directions), copies):
            some_directions = all_directions[first : first + copies]
            positions = torch.arange(first, first + len(some_directions)) // probes_per_token
            with torch.enable_grad():
                copies_of_row = row.expand(len(some_directions), T, D).clone().requires_grad_()
                y = functional_call(mixer, frozen, (copies_of_row,))
            cotangent = torch.zeros_like(y)
            cotangent[torch.arange(len(some_directions)), positions] = some_directions
            (slope,) = torch.autograd.grad(y, copies_of_row, cotangent)
            squares.index_add_(0, positions, slope.detach().double().square().sum(-1).cpu())
    scale = len(x) * (1 if probes is None else probes)
    return (squares / scale).sqrt()


def tokens_back(config: ModelConfig) -> int | None:
    """The most tokens before its own that an output of the model depends on; None if its settings do not limit it."""
    if not isinstance(config, LayeredConfig) or config.encoder_pattern is not None:
        return None
    if any(ffn.reads_back for ffn in config.ffn_pattern):
        return None
    total = 0
    for mixer in config.mixers:
        if mixer.tokens_back is None:
            return None
        total += mixer.tokens_back
    return total


def in_words(layer: int | None, model: int | None, depth: int) -> str:
    """The tokens that a layer and its model reach back, in words; empty where neither is known."""
    if layer is None:
        return ""
    of_model = "" if model is None or depth == 1 else f", all {depth} layers {model:,} together"
    return f"A layer reaches {layer:,} tokens back at most{of_model}."


def view(mixer: nn.Module, x: Stream, sentence: str = "") -> View:
    """The reach map of a report: an estimate for the first tokens of the first row of x (B, T, D), as logarithms.

    `sentence`, one of `in_words`, is added to the description.
    """
    reach = reach_of(mixer, x[:1, :SHOWN], probes=PROBES)
    largest = reach.max()
    powers = (DECADES + (reach / largest).log10()).clamp(min=0) if largest > 0 else reach
    meaning = (
        f"How much each output moves with each input, |∂y_t/∂x_s|: {DECADES} is the largest slope, one less a tenth, "
        "0 a thousandth or less."
    )
    return View("reach", f"{meaning} {sentence}".strip(), ("query", "key"), powers)


def _directions(T: int, D: int, probes: int | None, seed: int) -> Tensor:
    """The directions of the copies of a position: one channel each, or random signs. (T, D or probes, D)"""
    if probes is None:
        return torch.eye(D, dtype=torch.float64).expand(T, D, D)
    require_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2, (T, probes, D), generator=generator).double() * 2 - 1


@final
@dataclass(frozen=True)
class Span:
    """A reach map in four numbers: means over the second half of the positions, which can look back far enough."""

    now: float
    """the share of an output's slopes that is on its own token"""
    half: float
    """tokens back, 0 for its own, within which half of the slopes lie"""
    most: float
    """tokens back within which nine tenths of them lie"""
    seen: float
    """the share of all tokens so far whose slope is at least a thousandth of the largest"""


def span(reach: Float[Tensor, "T T"]) -> Span:
    """The numbers of a causal mixer's map; positions without any slope are left out.

    ValueError where there is no slope at all.
    """
    T = len(reach)
    positions = [t for t in range(T // 2, T) if float(reach[t, : t + 1].sum()) > 0]
    if not positions:
        raise ValueError("the map has no slope in its second half: nothing is read there")
    slopes_by_lag = [reach[t, : t + 1].flip(0) for t in positions]  # from lag 0 on
    shares = [slopes / slopes.sum() for slopes in slopes_by_lag]
    return Span(
        now=_mean([float(share[0]) for share in shares]),
        half=_mean([_within(share, 0.5) for share in shares]),
        most=_mean([_within(share, 0.9) for share in shares]),
        seen=_mean([float((slopes >= slopes.max() / 1000).double().mean()) for slopes in slopes_by_lag]),
    )


def _within(share: Tensor, part: float) -> float:
    """The first lag up to which the shares add up to `part`."""
    return float((share.cumsum(0) >= part - 1e-12).nonzero()[0])


def _mean(values: list[float]) -> float:
    return math.fsum(values) / len(values)

"""Layers that are left out where a token is predicted surely enough before the last: CALM's early exits.

    softmax   c_l = p_(1) - p_(2), the two largest of softmax(logits(x_l))       x_l: the stream after layer l
    state     c_l = cos(x_l, x_{l-1})
    learned   c_l = σ(w_l · x_l + b_l), by a classifier of the model: `seqloom.depth.learned`
    exit at the first l with c_l ≥ λ_t,    λ_t = clip(9/10 λ + 1/10 e^{-τ t / N}, 0, 1)       token t of at most N

The layers that are left out read x_l as it is, so that later tokens find what they look back on: keys and values of
attention, the state of a recurrent mixer. Their mixers are computed for that, their feed-forward networks are not; and
`softmax` computes the output layer after every layer, which in a small model costs more than a layer.

Source: Schuster et al., CALM, arXiv:2207.07061, sections 3.2-3.5. What differs: there, attention computes keys
and values alone in those layers.
"""

import time
from dataclasses import dataclass
from functools import partial
from itertools import count
from math import exp
from typing import Any, Literal, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.arguments import described
from seqloom.core.config import near
from seqloom.core.layered import layered
from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.depth.classifier import Classifier, Confident
from seqloom.generation.modes import Step

Measure: TypeAlias = Literal["softmax", "state"] | Confident
MEASURES: tuple[Literal["softmax", "state"], ...] = ("softmax", "state")
"""those that need no training"""
WARM = 8
"""tokens that are read before a time is taken"""


@final
@dataclass
class Exits:
    """When layers are left out, and what came of it: `tokens` that were read by themselves, in `layers` in all."""

    threshold: float
    """λ: 1 leaves out (almost) none, 0 all but the first"""
    by: Measure = "softmax"
    decay: float = 4.0
    """τ: how fast the threshold of early tokens falls"""
    most: int = 200
    """N: tokens that are written at most"""
    tokens: int = 0
    layers: int = 0

    def at(self, token: int) -> float:
        """The threshold λ_t of the token of a number, from 0."""
        return min(max(0.9 * self.threshold + 0.1 * exp(-self.decay * token / self.most), 0.0), 1.0)

    def step(self, model: Model, ids: Int[Tensor, " B"], state: ModelState) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Reads a token of each row on, whose state is given up; all rows leave out the same layers."""
        threshold, numbers = self.at(self.tokens), count(1)

        def enough(before: Tensor, after: Tensor) -> bool:
            return bool((confidence(model, next(numbers), before, after, self.by) >= threshold).all())

        logits, state, layers = model.step_until(ids, state, enough, reuse=True)
        self.tokens += 1
        self.layers += layers
        return logits, state

    @property
    def depth(self) -> float:
        """Layers per token, of those that were read by themselves."""
        return self.layers / max(self.tokens, 1)


def confidence(
    model: Model, layer: int, before: Float[Tensor, "B D"], after: Float[Tensor, "B D"], by: Measure
) -> Float[Tensor, " B"]:
    """How sure the prediction after a layer is, from 1, given the stream before and after it."""
    if isinstance(by, Confident):
        return by.confidence(layer, after)
    if by == "state":
        return torch.cosine_similarity(before.float(), after.float(), dim=1)
    first, second = model.exit_logits(after[:, None], layer)[:, 0].float().softmax(1).topk(2).values.unbind(1)
    return first - second


@torch.no_grad()
def compared(model: Model, exits: Exits, prompt: str, text: str) -> str:
    """In words: the layers of a text that was written with exits, and time and likeliest tokens with and without them.

    The text is read again in one go from a state, token by token, as far as the model's context reaches.
    """
    if not exits.tokens:
        return "no token was read by itself, so that no layer could be left out: see --mode stream"
    read, ids = (model.tokenizer.encode(words) for words in (prompt, prompt + text))
    ids = ids[: model.traits.longest or len(ids)]
    first = min(len(read), len(ids) - 1)
    whole = partial(model.step, reuse=True)
    read_on(model, whole, ids[:first], ids[first : first + WARM])  # so that the first way pays for no first time
    seconds, likeliest = zip(
        *(
            read_on(model, step, ids[:first], ids[first:])
            for step in (whole, partial(Exits(exits.threshold, exits.by, exits.decay, exits.most).step, model))
        ),
        strict=True,
    )
    changed = sum(one != other for one, other in zip(*likeliest, strict=True)) / len(likeliest[0])
    depth = len(model.config.mixers)
    return (
        f"{exits.depth:.2f} of {depth} layers on average over {exits.tokens:,} tokens; the text read again takes "
        f"{seconds[1] / seconds[0]:.0%} of the time with all layers, and the likeliest token differs in {changed:.1%}"
    )


def read_on(model: Model, step: Step, before: list[int], ids: list[int]) -> tuple[float, list[int]]:
    """Seconds that the ids take one by one, after others, and the likeliest token after each, by a way to read one."""
    _, state = model.read(torch.tensor([before], device=model.device), model.start(1))
    likeliest = []
    began = time.perf_counter()
    for id in ids:
        logits, state = step(torch.tensor([id], device=model.device), state)
        likeliest.append(int(logits.argmax()))
    return time.perf_counter() - began, likeliest


def require_exits(exits: Any, model: Model) -> None:
    """Raises TypeError or ValueError unless it is an Exits of the model whose numbers are in their range, or None."""
    if exits is None:
        return
    if not isinstance(exits, Exits):
        raise TypeError(f"exits are a seqloom.generation.exits.Exits, not {described(exits)}")
    if isinstance(exits.by, Confident):
        _require_fit(exits.by, model)
    elif exits.by not in MEASURES:
        raise ValueError(f"unknown measure {exits.by!r} of exits; {near(str(exits.by), MEASURES)}")
    for name, value in (("the threshold", exits.threshold), ("the decay", exits.decay)):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise TypeError(f"{name} of exits is a number, not {described(value)}")
    if not 0 <= exits.threshold <= 1:
        raise ValueError(f"the threshold of exits is from 0 to 1, not {exits.threshold}")
    if not 0 <= exits.decay < float("inf") or exits.most < 1:
        raise ValueError("the decay of exits is 0 or more, and the tokens that it is over at least 1")


def _require_fit(classifier: Classifier, model: Model) -> None:
    sizes = classifier.config
    config = layered(model.config, "leaving layers out")
    if (sizes.depth, sizes.dim) != (config.depth, config.dim):
        raise ValueError(
            f"the classifier is of a model of {sizes.depth} layers and {sizes.dim} channels, this one has "
            f"{config.depth} and {config.dim}: train one of this model"
        )

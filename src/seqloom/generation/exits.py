"""Layers that are left out where a token is predicted surely enough before the last: CALM's early exits.

    softmax   c_l = p_(1) - p_(2), the two largest of softmax(logits(x_l))       x_l: the stream after layer l
    state     c_l = cos(x_l, x_{l-1})
    learned   c_l = σ(w_l · x_l + b_l), by a classifier of the model: `seqloom.depth`
    exit at the first l with c_l ≥ λ_t,    λ_t = clip(9/10 λ + 1/10 e^{-τ t / N}, 0, 1)       token t of at most N

A classifier may choose l itself, or have thresholds of its own for each layer (Depth-Adaptive, `seqloom.depth`).

The layers that are left out read x_l as it is, so that later tokens find what they look back on: keys and values of
attention, the state of a recurrent mixer. Their mixers are computed for that, their feed-forward networks are not; and
`softmax` computes the output layer after every layer, which in a small model costs more than a layer.

Source: Schuster et al., CALM, arXiv:2207.07061, sections 3.2-3.5. What differs: there, attention computes keys
and values alone in those layers.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from math import exp
from typing import Any, Literal, TypeAlias, TypeVar, final

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.arguments import count as require_count
from seqloom.core.arguments import described
from seqloom.core.config import suggestion
from seqloom.core.layered import layered
from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.depth.classifier import Chooser, Classifier, ConfidenceClassifier
from seqloom.depth.multinomial import Multinomial
from seqloom.depth.sequence import Sequence
from seqloom.generation.modes import Step

T = TypeVar("T")
Measure: TypeAlias = Literal["softmax", "state"] | Classifier
MEASURES: tuple[Literal["softmax", "state"], ...] = ("softmax", "state")
"""those that need no training"""
WARM = 8
"""tokens that are read before the timing starts"""


@final
@dataclass
class Exits:
    """When layers are left out; and the counts of the `tokens` read one by one and of the `layers` run for them."""

    threshold: float | None
    """λ: 1 leaves out (almost) none, 0 all but the first; None where the classifier has its own, or needs none"""
    by: Measure = "softmax"
    decay: float = 4.0
    """τ: how fast the threshold of early tokens falls"""
    most: int = 200
    """N: the most tokens that are written"""
    first: int = 1
    """no token exits before this layer"""
    tokens: int = 0
    layers: int = 0
    position: int = field(default=0, repr=False)
    """t, the number of the token that is read next, from 0 for the first one that was written"""
    chosen: Int[Tensor, " B"] | None = field(default=None, repr=False)
    """the layer of each row, where its prompt decides: see `begin`"""

    def at(self, token: int, layer: int = 1) -> float:
        """The threshold λ_t of token number `token`, from 0; without λ the classifier's threshold for `layer`."""
        if self.threshold is None:
            assert isinstance(self.by, ConfidenceClassifier)
            return self.by.threshold(layer)
        return min(max(0.9 * self.threshold + 0.1 * exp(-self.decay * token / self.most), 0.0), 1.0)

    @torch.no_grad()
    def begin(self, model: Model, prompts: Int[Tensor, "B T"]) -> None:
        """Begins new texts; reads the prompts, at most a context of each, where they choose the layers to leave out."""
        self.position = 0
        if isinstance(self.by, Sequence):
            longest = min(model.config.context, model.traits.longest or model.config.context)
            self.chosen = self.by.chosen(model.features(prompts[:, -longest:]).mean(1))

    def step(self, model: Model, ids: Int[Tensor, " B"], state: ModelState) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits after one further token of each row, and the new state; all rows leave out the same layers.

        The given state may be overwritten.
        """
        if isinstance(self.by, Sequence) and self.chosen is None:
            raise ValueError("the prompts of these texts choose the layer: call begin(model, prompts) first")
        token = self.position
        chosen = self.chosen
        layer_numbers = count(1)

        def enough(before: Tensor, after: Tensor) -> bool:
            """Whether all rows exit after this layer, given the stream (B, D) before and after it."""
            nonlocal chosen
            layer = next(layer_numbers)
            if layer == 1 and isinstance(self.by, Multinomial):
                chosen = self.by.chosen(after)
            if layer < self.first:
                return False
            if chosen is not None:
                return bool((chosen <= layer).all())
            return bool((confidence(model, layer, before, after, self.by) >= self.at(token, layer)).all())

        logits, state, layers = model.step_until(ids, state, enough, reuse=True)
        self.tokens += 1
        self.position += 1
        self.layers += layers
        return logits, state

    def followed(self, draws: Iterable[T]) -> Iterator[T]:
        """The tokens that are drawn, with `position` set to each: `slide` also reads tokens without a step."""
        for number, drawn in enumerate(draws):
            self.position = number
            yield drawn

    @property
    def depth(self) -> float:
        """Layers run per token, over the tokens that were read one by one."""
        return self.layers / max(self.tokens, 1)


def confidence(
    model: Model, layer: int, before: Float[Tensor, "B D"], after: Float[Tensor, "B D"], by: Measure
) -> Float[Tensor, " B"]:
    """How sure the prediction after `layer` (1 for the first) is, given the stream before and after that layer."""
    if isinstance(by, ConfidenceClassifier):
        return by.confidence(layer, after)
    if isinstance(by, Classifier):
        raise ValueError(f"a classifier of kind {by.config.kind} chooses the layer itself and has no confidence")
    if by == "state":
        return torch.cosine_similarity(before.float(), after.float(), dim=1)
    first, second = model.exit_logits(after[:, None], layer)[:, 0].float().softmax(1).topk(2).values.unbind(1)
    return first - second


@torch.no_grad()
def compared(model: Model, exits: Exits, prompt: str, text: str) -> str:
    """In words: the layers run for a text that was written with exits, and what the exits save and change.

    For time and likeliest tokens the text is read again token by token, with exits and without, as far as the model's
    context reaches.
    """
    if not exits.tokens:
        return "no token was read by itself, so that no layer could be left out: see --mode stream"
    prompt_ids = model.tokenizer.encode(prompt)
    ids = model.tokenizer.encode(prompt + text)
    ids = ids[: model.traits.longest or len(ids)]
    first = min(len(prompt_ids), len(ids) - 1)
    before, after = ids[:first], ids[first:]
    full_step = partial(model.step, reuse=True)
    read_on(model, full_step, before, after[:WARM])  # warms up, so that the first timing is not longer for it
    new_exits = replace(exits, tokens=0, layers=0)
    new_exits.begin(model, torch.tensor([before], device=model.device))
    full_seconds, full_likeliest = read_on(model, full_step, before, after)
    exit_seconds, exit_likeliest = read_on(model, partial(new_exits.step, model), before, after)
    differing = sum(full != exit for full, exit in zip(full_likeliest, exit_likeliest, strict=True))
    depth = len(model.config.mixers)
    return (
        f"{exits.depth:.2f} of {depth} layers on average over {exits.tokens:,} tokens; the text read again takes "
        f"{exit_seconds / full_seconds:.0%} of the time with all layers, and the likeliest token differs in "
        f"{differing / len(full_likeliest):.1%}"
    )


def read_on(model: Model, step: Step, before: list[int], ids: list[int]) -> tuple[float, list[int]]:
    """Reads `before`, then `ids` one by one by `step`: seconds for `ids`, and the likeliest token after each."""
    _, state = model.read(torch.tensor([before], device=model.device), model.start(1))
    likeliest = []
    began = time.perf_counter()
    for id in ids:
        logits, state = step(torch.tensor([id], device=model.device), state)
        likeliest.append(int(logits.argmax()))
    return time.perf_counter() - began, likeliest


def require_exits(exits: Any, model: Model) -> None:
    """Raises TypeError or ValueError unless it is an Exits that the model has and its numbers are in range, or None."""
    if exits is None:
        return
    if not isinstance(exits, Exits):
        raise TypeError(f"exits are a seqloom.generation.exits.Exits, not {described(exits)}")
    if isinstance(exits.by, Classifier):
        _require_fit(exits.by, model)
    elif exits.by not in MEASURES:
        raise ValueError(f"unknown measure {exits.by!r} of exits; {suggestion(str(exits.by), MEASURES)}")
    _require_threshold(exits)
    for name, value in (("the threshold", exits.threshold), ("the decay", exits.decay)):
        if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
            raise TypeError(f"{name} of exits is a number, not {described(value)}")
    if exits.threshold is not None and not 0 <= exits.threshold <= 1:
        raise ValueError(f"the threshold of exits is from 0 to 1, not {exits.threshold}")
    if not 0 <= exits.decay < float("inf") or exits.most < 1:
        raise ValueError("the decay of exits is 0 or more, and the tokens that it is over at least 1")
    require_count("the first layer of exits", exits.first, least=1)
    depth = layered(model.config, "leaving layers out").depth
    if exits.first > depth:
        raise ValueError(f"exits after layer {exits.first} and later lie beyond the model's depth of {depth}")
    model.check_exits()


def _require_threshold(exits: Exits) -> None:
    """ValueError where a threshold is missing, or has no use."""
    by = exits.by
    if isinstance(by, Chooser) and exits.threshold is not None:
        raise ValueError(f"a classifier of kind {by.config.kind} chooses the layer itself: leave the threshold out")
    if exits.threshold is None and not isinstance(by, Classifier):
        raise ValueError(f"exits by {by} need a threshold from 0 to 1: give one, as 0.9")


def _require_fit(classifier: Classifier, model: Model) -> None:
    """ValueError where the classifier is for a model of another depth or dim."""
    sizes = classifier.config
    config = layered(model.config, "leaving layers out")
    if (sizes.depth, sizes.dim) != (config.depth, config.dim):
        raise ValueError(
            f"the classifier is of a model of {sizes.depth} layers and {sizes.dim} channels, this one has "
            f"{config.depth} and {config.dim}: train one of this model"
        )

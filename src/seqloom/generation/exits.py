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
from functools import partial
from itertools import count
from math import exp
from typing import Any, Literal, TypeAlias, TypeVar, final

import torch
from jaxtyping import Float, Int
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor

from seqloom.core.arguments import describe_value
from seqloom.core.config import Config, suggestion
from seqloom.core.layered import require_layers
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
class Exits(Config):
    """When layers are left out."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    threshold: float | None = Field(
        None, description="λ: 1 leaves out almost none, 0 all but the first; none where the classifier has its own"
    )
    by: Any = Field("softmax", description="the confidence: softmax, state, or a classifier of `seqloom study exits`")
    decay: float = Field(4.0, ge=0, description="τ: how fast the threshold of early tokens falls")
    most: int = Field(200, ge=1, description="N: the most tokens that are written")
    first: int = Field(1, ge=1, description="no token exits before this layer")

    @model_validator(mode="after")
    def _threshold_fits(self) -> "Exits":
        by = self.by
        if not isinstance(by, Classifier) and by not in MEASURES:
            raise ValueError(f"unknown measure {str(by)[:60]!r} of exits; {suggestion(str(by), MEASURES)}")
        if self.threshold is not None and not 0 <= self.threshold <= 1:
            raise ValueError(f"the threshold of exits is from 0 to 1, not {self.threshold}")
        if isinstance(by, Chooser) and self.threshold is not None:
            raise ValueError(f"a classifier of kind {by.config.kind} chooses the layer itself: leave the threshold out")
        if self.threshold is None and not isinstance(by, Classifier):
            raise ValueError(f"exits by {by} need a threshold from 0 to 1: give one, as 0.9")
        return self

    def at(self, token: int, layer: int = 1) -> float:
        """The threshold λ_t of token number `token`, from 0; without λ the classifier's threshold for `layer`."""
        if self.threshold is None:
            assert isinstance(self.by, ConfidenceClassifier)
            return self.by.threshold(layer)
        return min(max(0.9 * self.threshold + 0.1 * exp(-self.decay * token / self.most), 0.0), 1.0)


@final
class Exiting:
    """A model that leaves out layers; the counts of the `tokens` read one by one and of the `layers` run for them."""

    def __init__(self, model: Model, exits: Exits) -> None:
        require_exits(exits, model)
        self.model, self.exits = model, exits
        self.tokens = 0
        self.layers = 0
        self._position = 0
        """t, the number of the token that is read next, from 0 for the first one that was written"""
        self._chosen: Int[Tensor, " B"] | None = None
        """the layer of each row, where its prompt decides: see `begin`"""

    @torch.no_grad()
    def begin(self, prompts: Int[Tensor, "B T"]) -> None:
        """Begins new texts; reads the prompts, at most a context of each, where they choose the layers to leave out."""
        self._position = 0
        if isinstance(self.exits.by, Sequence):
            context = self.model.config.context
            longest = min(context, self.model.traits.longest or context)
            self._chosen = self.exits.by.choose_exit(self.model.features(prompts[:, -longest:]).mean(1))

    def step(self, ids: Int[Tensor, " B"], state: ModelState) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits after one further token of each row, and the new state; all rows leave out the same layers.

        The given state may be overwritten.
        """
        by = self.exits.by
        if isinstance(by, Sequence) and self._chosen is None:
            raise ValueError("the prompts of these texts choose the layer: call begin(prompts) first")
        token = self._position
        chosen = self._chosen
        layer_numbers = count(1)

        def enough(before: Tensor, after: Tensor) -> bool:
            """Whether all rows exit after this layer, given the stream (B, D) before and after it."""
            nonlocal chosen
            layer = next(layer_numbers)
            if layer == 1 and isinstance(by, Multinomial):
                chosen = by.choose_exit(after)
            if layer < self.exits.first:
                return False
            if chosen is not None:
                return bool((chosen <= layer).all())
            return bool((confidence(self.model, layer, before, after, by) >= self.exits.at(token, layer)).all())

        logits, state, layers = self.model.step_until(ids, state, enough, reuse=True)
        self.tokens += 1
        self._position += 1
        self.layers += layers
        return logits, state

    def follow(self, draws: Iterable[T]) -> Iterator[T]:
        """The tokens that are drawn, with the position set to each: `slide` also reads tokens without a step."""
        for number, token in enumerate(draws):
            self._position = number
            yield token

    @property
    def depth(self) -> float:
        """Layers run per token, over the tokens that were read one by one."""
        return self.layers / max(self.tokens, 1)

    def report(self, prompt: str, text: str) -> str:
        """What the exits of a text saved and changed, in words: see `compare`."""
        return compare(self, prompt, text)


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
def compare(exiting: Exiting, prompt: str, text: str) -> str:
    """In words: the layers run for a text that was written with exits, and what the exits save and change.

    For time and likeliest tokens the text is read again token by token, with exits and without, as far as the model's
    context reaches.
    """
    model = exiting.model
    if not exiting.tokens:
        return "no token was read by itself, so that no layer could be left out: see --mode stream"
    prompt_ids = model.tokenizer.encode(prompt)
    ids = model.tokenizer.encode(prompt + text)
    ids = ids[: model.traits.longest or len(ids)]
    first = min(len(prompt_ids), len(ids) - 1)
    before, after = ids[:first], ids[first:]
    full_step = partial(model.step, reuse=True)
    read_on(model, full_step, before, after[:WARM])  # warms up, so that the first timing is not longer for it
    again = Exiting(model, exiting.exits)
    again.begin(torch.tensor([before], device=model.device))
    full_seconds, full_likeliest = read_on(model, full_step, before, after)
    exit_seconds, exit_likeliest = read_on(model, again.step, before, after)
    differing = sum(full != exit for full, exit in zip(full_likeliest, exit_likeliest, strict=True))
    depth = len(model.config.mixers)
    return (
        f"{exiting.depth:.2f} of {depth} layers on average over {exiting.tokens:,} tokens; the text read again takes "
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
    """Raises TypeError or ValueError unless it is an Exits that the model can have."""
    if not isinstance(exits, Exits):
        raise TypeError(f"exits are a seqloom.generation.exits.Exits, not {describe_value(exits)}")
    if isinstance(exits.by, Classifier):
        _require_fit(exits.by, model)
    depth = require_layers(model.config, "leaving layers out").depth
    if exits.first > depth:
        raise ValueError(f"exits after layer {exits.first} and later lie beyond the model's depth of {depth}")
    model.check_exits()


def _require_fit(classifier: Classifier, model: Model) -> None:
    """ValueError where the classifier is for a model of another depth or dim."""
    sizes = classifier.config
    config = require_layers(model.config, "leaving layers out")
    if (sizes.depth, sizes.dim) != (config.depth, config.dim):
        raise ValueError(
            f"the classifier is of a model of {sizes.depth} layers and {sizes.dim} channels, this one has "
            f"{config.depth} and {config.dim}: train one of this model"
        )

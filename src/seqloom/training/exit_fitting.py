"""The training of a classifier of exits: Adam on windows of a text, which the model reads with all layers.

The model is not changed. The last tenth of the text is left out, and says how good the classifier is.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite
from typing import Any, final

import numpy as np
import torch
from torch import Tensor

from seqloom.core.arguments import count
from seqloom.core.layered import require_layers
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, progress
from seqloom.core.rest import Rest
from seqloom.core.seeds import require_seed
from seqloom.data.tokens import Ids, Tokens
from seqloom.data.windows import Windows
from seqloom.depth.classifier import Classifier, ConfidenceClassifier, LayerPredictions, layer_predictions
from seqloom.depth.kinds import KINDS, classifier_config
from seqloom.evaluation.scores import require_logits, require_tokens

SCORED = 8
"""batches of the last tenth that a classifier is judged by"""
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95)
"""at which it is judged"""


@final
@dataclass(frozen=True)
class Judged:
    """The layers and predictions on the last tenth of a text when layers are left out."""

    by: str
    """the threshold, the classifier's own choice, the oracle's, or all layers"""
    layers: float
    """per token"""
    same: float
    """the share of tokens whose likeliest successor is that after all layers"""
    right: float
    """the share of tokens whose likeliest successor is the next token of the text"""


@final
@dataclass(frozen=True)
class Fitted:
    """A trained classifier, its mean loss on the last tenth of the text before and after, and what it does there."""

    classifier: Classifier
    before: float
    after: float
    judged: tuple[Judged, ...]


def fit_exits(
    model: Model,
    tokens: Tokens,
    kind: str = "learned",
    *,
    batches: int = 300,
    batch: int = 16,
    rate: float = 0.01,
    seed: int = 0,
    show: Show = progress,
    **settings: Any,
) -> Fitted:
    """Trains a classifier of a kind, with settings of that kind, for a model; `show` shows the batches.

    ValueError for a model without exits, for settings that are not the kind's, and for a text that is too short.
    """
    require_generates(model, "leave layers out")
    require_tokens(tokens, model.config.vocab)
    config = require_layers(model.config, "leaving layers out")
    if config.depth < 2:
        raise ValueError("a model of one layer has none that could be left out")
    require_taken(kind, settings)
    classifier = classifier_config({"kind": kind, "depth": config.depth, "dim": config.dim, **settings})
    count("batches", batches, least=1)
    count("batch", batch, least=1)
    require_seed(seed)
    if not 0 < rate <= 1:
        raise ValueError(f"the rate of training is above 0 and at most 1, not {rate}")
    context = min(config.context, model.traits.longest or config.context)
    require_logits(model, batch, context)
    if classifier.kind == "sequence" and context < 2:
        raise ValueError("windows of one token have no prompt, and a classifier of kind sequence reads one")
    windows, held_out = (Windows(part, context, seed) for part in _divide_text(tokens))
    trained = classifier.build().to(model.device, torch.promote_types(model.dtype, torch.float32))
    adam = torch.optim.Adam(trained.parameters(), lr=rate)
    before, _ = _judge_exits(trained, model, held_out, batch, show)
    rest = Rest(model)
    with show("training", batches, "batches") as advance:
        for step in range(batches):
            with rest:
                read = layer_predictions(model, windows.batch(step, batch).to(model.device))
            loss = trained.loss(read)
            adam.zero_grad()
            loss.backward()
            adam.step()
            advance()
    after, judged = _judge_exits(trained.eval(), model, held_out, batch, show)
    if not isfinite(after):
        raise ValueError(f"the loss of the classifier is {after}: choose a smaller rate, or a sound run")
    return Fitted(trained, before, after, judged)


def require_taken(kind: str, settings: Iterable[str], option: str = "") -> None:
    """ValueError for a setting that other kinds of classifiers take, and this one does not.

    `option` is what comes before the name of a setting where the user writes it: `--` on the command line.
    """
    for name in settings:
        takers = [other for other, config in KINDS.items() if name in config.model_fields]
        if kind in KINDS and takers and kind not in takers:
            raise ValueError(f"{option}{name} is for {option}kind {_either(takers)}, not {kind}: leave it out")


def _either(names: list[str]) -> str:
    """The names of several things, one of which is meant: a, b or c."""
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _judge_exits(
    trained: Classifier, model: Model, held_out: Windows, batch: int, show: Show
) -> tuple[float, tuple[Judged, ...]]:
    """The mean loss on some batches, and what the classifier and its oracle do there."""
    loss = 0.0
    sums: dict[str, np.ndarray] = {}
    with Rest(model), show("judging", SCORED, "batches") as advance:
        for step in range(SCORED):
            read = layer_predictions(model, held_out.batch(step, batch).to(model.device))
            loss += float(trained.loss(read)) / SCORED
            for name, depths in _choices(trained, read).items():
                first = trained.first(depths.shape[1])
                index = depths[..., None] - 1
                same = read.same.gather(-1, index)[:, first:]
                right = read.right.gather(-1, index)[:, first:]
                means = [float(values.float().mean()) for values in (depths[:, first:], same, right)]
                sums[name] = sums.get(name, np.zeros(3)) + np.array(means) / SCORED
            advance()
    return loss, tuple(Judged(name, *means.tolist()) for name, means in sums.items())


def _choices(trained: Classifier, read: LayerPredictions) -> dict[str, Tensor]:
    """The number of layers (B, T) that each token runs through, by each of several ways to choose it."""
    all_layers = torch.full_like(read.same[..., 0], trained.config.depth, dtype=torch.long)
    choices = {"all layers": all_layers}
    oracle = trained.target(read)
    if oracle is not None:
        choices["the oracle"] = oracle
    if isinstance(trained, ConfidenceClassifier):
        return {**choices, **{f"--exit {level:g}": trained.depths(read.streams, level) for level in THRESHOLDS}}
    return {**choices, "the classifier": trained.depths(read.streams)}


def _divide_text(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The first nine tenths of a text and the last tenth, each as one document."""
    border = len(tokens) * 9 // 10
    return _one_document(tokens.ids[:border]), _one_document(tokens.ids[border:])


def _one_document(ids: Ids) -> Tokens:
    return Tokens(ids, np.zeros(1, np.int64), np.array([len(ids)], np.int64))

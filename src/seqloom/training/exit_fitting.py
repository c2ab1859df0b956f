"""The training of a classifier of exits: Adam on windows of a text, which the model reads with all layers.

The model is not changed. The last tenth of the text is left out, and says how good the classifier is.
"""

from dataclasses import dataclass
from math import isfinite
from typing import final

import numpy as np
import torch

from seqloom.core.arguments import count
from seqloom.core.layered import layered
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, progress
from seqloom.core.seeds import require_seed
from seqloom.data.tokens import Ids, Tokens
from seqloom.data.windows import Windows
from seqloom.depth.classifier import Classifier, ClassifierConfig, Kind
from seqloom.depth.kinds import classifier
from seqloom.depth.reading import seen
from seqloom.evaluation.scores import require_logits, require_tokens

SCORED = 8
"""batches of the last tenth that a classifier is judged by"""
THRESHOLDS = (0.5, 0.7, 0.8, 0.9, 0.95)
"""at which it is judged"""


@final
@dataclass(frozen=True)
class Judged:
    """What a classifier does with the last tenth of a text at a threshold."""

    threshold: float
    layers: float
    """per token"""
    same: float
    """the share of tokens whose likeliest successor is that after all layers"""


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
    kind: Kind = "learned",
    *,
    batches: int = 300,
    batch: int = 16,
    rate: float = 0.01,
    seed: int = 0,
    show: Show = progress,
) -> Fitted:
    """Trains a classifier of a model. ValueError for a model without exits, and for a text that is too short."""
    require_generates(model, "leave layers out")
    require_tokens(tokens, model.config.vocab)
    config = layered(model.config, "leaving layers out")
    if config.depth < 2:
        raise ValueError("a model of one layer has none that could be left out")
    count("batches", batches, least=1)
    count("batch", batch, least=1)
    require_seed(seed)
    if not 0 < rate <= 1:
        raise ValueError(f"the rate of training is above 0 and at most 1, not {rate}")
    context = min(config.context, model.traits.longest or config.context)
    require_logits(model, batch, context)
    learned, held = (Windows(part, context, seed) for part in _divided(tokens))
    trained = classifier(ClassifierConfig(kind=kind, depth=config.depth, dim=config.dim))
    trained = trained.to(model.device, torch.promote_types(model.dtype, torch.float32))
    adam = torch.optim.Adam(trained.parameters(), lr=rate)
    training = model.training
    model.eval()
    try:
        before, _ = _judged(trained, model, held, batch)
        with show("training", batches, "batches") as advance:
            for step in range(batches):
                loss = trained.loss(seen(model, learned.batch(step, batch).to(model.device)))
                adam.zero_grad()
                loss.backward()
                adam.step()
                advance()
        after, judged = _judged(trained.eval(), model, held, batch)
    finally:
        model.train(training)
    if not isfinite(after):
        raise ValueError(f"the loss of the classifier is {after}: choose a smaller rate, or a sound run")
    return Fitted(trained, before, after, judged)


@torch.no_grad()
def _judged(trained: Classifier, model: Model, held: Windows, batch: int) -> tuple[float, tuple[Judged, ...]]:
    """The mean loss on some batches, and what the classifier does there at each threshold."""
    loss, layers, same = 0.0, np.zeros(len(THRESHOLDS)), np.zeros(len(THRESHOLDS))
    for step in range(SCORED):
        read = seen(model, held.batch(step, batch).to(model.device))
        loss += float(trained.loss(read)) / SCORED
        for number, threshold in enumerate(THRESHOLDS):
            depths = trained.depths(read.streams, threshold)
            layers[number] += float(depths.float().mean()) / SCORED
            same[number] += float(read.same.gather(-1, depths[..., None] - 1).float().mean()) / SCORED
    rows = zip(THRESHOLDS, layers.tolist(), same.tolist(), strict=True)
    return loss, tuple(Judged(*row) for row in rows)


def _divided(tokens: Tokens) -> tuple[Tokens, Tokens]:
    """The first nine tenths of a text and the last, without their documents."""
    border = len(tokens) * 9 // 10
    return _plain(tokens.ids[:border]), _plain(tokens.ids[border:])


def _plain(ids: Ids) -> Tokens:
    return Tokens(ids, np.zeros(1, np.int64), np.array([len(ids)], np.int64))

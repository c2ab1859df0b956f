"""Trained models that read windows longer than their context, and their loss on the tokens beyond it."""

from contextlib import suppress

import numpy as np
import torch

from seqloom.core.layered import require_layers
from seqloom.core.model import Model
from seqloom.data.tokens import Tokens
from seqloom.data.windows import cut
from seqloom.evaluation.scores import Scores

SAME = 1e-3
"""largest difference of logits between a model and its copy with a longer context, relative to the largest logit"""


def at_length(model: Model, length: int) -> Model:
    """A model with the same weights that reads windows of `length` tokens: the model itself, or one with that context.

    ValueError, with the reason, where neither can.
    """
    config = require_layers(model.config)
    if length <= config.context:
        return model
    reach = config.position.longest(config.context)
    if reach is not None and reach < length:
        raise ValueError(f"{config.position.kind} positions reach {reach:,} tokens")
    longer = config.model_copy(update={"context": length})
    with suppress(ValueError):  # weights for each position or lag do not fit
        rebuilt = model.rebuild_with(longer).eval()
        if _same_logits(model, rebuilt):
            return rebuilt
    longest = model.traits.longest
    if longest is not None and longest < length:
        kinds = ", ".join(sorted({mixer.kind for mixer in config.pattern}))
        raise ValueError(f"{kinds} has weights for texts of {longest:,} tokens")
    return model


def beyond(scores: Scores, tokens: Tokens, length: int, context: int) -> float | None:
    """The mean loss of tokens with at least `context` others before them in their window; None without any."""
    losses = np.array(scores.by_position)
    sizes = cut(tokens, length)[1]
    counts = np.array([(sizes > position).sum() for position in range(len(losses))])
    count = counts[context:].sum()
    return float((losses * counts)[context:].sum() / count) if count else None


def _same_logits(model: Model, rebuilt: Model) -> bool:
    """Whether both models give the same logits for a text of the trained length."""
    config = model.config
    ids = torch.randint(config.vocab, (1, config.context), generator=torch.Generator().manual_seed(0)).to(model.device)
    with torch.no_grad():
        logits, rebuilt_logits = model(ids), rebuilt(ids)
    return bool((logits - rebuilt_logits).abs().max() <= SAME * logits.abs().max())

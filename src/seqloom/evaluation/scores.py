"""Held-out loss: every held-out token predicted exactly once.

    loss = -(1/N) Σ ln p(token | the tokens before it in its window)            nats a token; perplexity is e^loss
    bits per byte = Σ -log2 p / bytes of the text                               comparable between tokenizers

Where a tokenizer does not know a word, p is that of the unknown token, which stands for many words: the loss is
comparable only between models of one vocabulary, and there are no bits per byte. The share of such tokens is reported
instead, as is usual next to perplexities over vocabularies of words.

Windows lie side by side and restart at each document, so the first token of a window is predicted from one token and
the last from `context`: `by_position` says how much that matters. With a `stride` of N windows overlap, and each but a
document's first predicts N tokens alone, from `context` - N + 1 tokens or more.
"""

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.core.arguments import count, describe_value
from seqloom.core.available_memory import require_memory
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import Show, require_show, show_nothing
from seqloom.core.rest import Rest
from seqloom.data.tokens import Tokens
from seqloom.data.windows import cut, held_out
from seqloom.evaluation.replayed import Replayed
from seqloom.retrieval.neighbors import Neighbors, require_neighbors


@final
@dataclass(frozen=True)
class Scores:
    """The losses of a model on a text."""

    loss: float
    """nats a token, `<eos>` of each document included"""
    bits_per_byte: float | None
    """None where some of the text is unknown to the tokenizer"""
    tokens: int
    by_position: tuple[float, ...]
    """loss of the token after 1, 2, … tokens of its window"""
    unknown: float | None = None
    """the share of unknown tokens; None where the tokenizer has none"""

    def row(self) -> dict[str, Any]:
        """The scores as a row of metrics."""
        values = asdict(self)
        if self.unknown is None:
            del values["unknown"]
        return {"held_out": values.pop("loss"), **values}


LONGEST = 2**24
"""tokens of a window, as in a model's settings"""


def widen_logits(logits: Tensor) -> Tensor:
    """The logits in float32 at least, as losses are computed."""
    return logits.to(torch.promote_types(logits.dtype, torch.float32))


def score(
    model: Model,
    tokens: Tokens,
    *,
    batch: int = 64,
    stride: int | None = None,
    context: int | None = None,
    neighbors: Neighbors | None = None,
    show: Show = show_nothing,
) -> Scores:
    """Scores a model on tokens, `batch` windows at a time, in the model's own precision; leaves it in its mode.

    Windows are of `context` tokens, the model's unless given, each `stride` after the one before it, side by side
    unless given. With `neighbors` each prediction is mixed with theirs. `show` shows the progress.

    Raises TypeError or ValueError for arguments that do not fit, for tokens of another vocabulary, and where the logits
    of this many windows would not fit into memory.
    """
    require_generates(model, "predict the next token")
    require_neighbors(neighbors)
    require_tokens(tokens, model.config.vocab)
    count("batch", batch, least=1)
    require_show(show)
    context = model.config.context if context is None else context
    count("context", context, least=1)
    if stride is not None and (isinstance(stride, bool) or not isinstance(stride, int)):
        raise TypeError(f"stride is a whole number of tokens, not {describe_value(stride)}")
    if context > LONGEST:
        raise ValueError(f"windows of {context:,} tokens cannot be scored: choose a context of at most {LONGEST:,}")
    windows = len(cut(tokens, context, stride)[0])
    require_logits(model, min(batch, windows), context)
    predict = Replayed(model, partial(_nats, model), windows // batch)
    sums = torch.zeros(context, dtype=torch.float64)
    counts = torch.zeros(context, dtype=torch.float64)
    with Rest(model), show("scoring", len(tokens), "tokens") as advance:
        for inputs, targets, keep in held_out(tokens, context, batch, stride):
            nats = predict(inputs, targets)
            if neighbors is not None:
                nats = neighbors.nats(nats, targets, keep)
            sums += torch.where(keep, nats.double(), 0.0).sum(0)
            counts += keep.sum(0)
            advance(int(keep.sum()))
    return sum_scores(sums, counts, tokens)


def _nats(model: Model, inputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of each target (B, T); padding is on the right, where a causal model cannot see it."""
    return cross_entropy(widen_logits(model(inputs)).transpose(1, 2), targets, reduction="none")


def require_logits(model: Model, rows: int, context: int) -> None:
    """Raises ValueError where the logits of this many rows of `context` tokens would not fit into memory."""
    device = model.device
    require_memory(
        f"predicting {rows:,} rows of {context:,} tokens at once",
        2 * model.dtype.itemsize * rows * context * model.config.vocab,  # their logits, twice
        "choose a smaller batch",
        available=torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None,
    )


def sum_scores(nats: Tensor, counts: Tensor, tokens: Tokens) -> Scores:
    """The scores, given sums of nats (T,) and counts of tokens (T,) by position in the window."""
    total = float(nats.sum())
    predicted = int(counts.sum())
    assert predicted == len(tokens), "a held-out token was left out or predicted twice"
    by_position = tuple(float(n / c) for n, c in zip(nats, counts, strict=True) if c)
    unknown = tokens.lost_tokens
    bits_per_byte = None if unknown else total / math.log(2) / max(int(tokens.sizes.sum()), 1)
    unknown_share = None if tokens.unknown is None else unknown / predicted
    return Scores(total / predicted, bits_per_byte, predicted, by_position, unknown_share)


def unigram_entropy(tokens: Tokens) -> float:
    """Nats a token of the best prediction that looks at no other token: the entropy of the text's own frequencies."""
    require_tokens(tokens)
    counts = np.bincount(tokens.ids)
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


def require_tokens(tokens: Any, vocab: int | None = None) -> None:
    """Raises unless `tokens` are Tokens, at least one, of ids below `vocab` where that is given."""
    if not isinstance(tokens, Tokens):
        raise TypeError(f"tokens are a seqloom.data.tokens.Tokens, not {describe_value(tokens)}")
    if len(tokens) == 0:
        raise ValueError("there are no tokens: give a text of at least one document")
    largest = int(tokens.ids.max())
    if vocab is not None and largest >= vocab:
        raise ValueError(f"the text has token id {largest}, the model's vocabulary ends at {vocab - 1}")

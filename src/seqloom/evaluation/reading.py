"""Held-out loss of a model that streams: each document from its first token to its last, by the model's state.

    loss = -(1/N) Σ ln p(token | the tokens before it in its document, as far as the state holds them)

The windows of `seqloom.evaluation.scores` begin without a state instead. The loss by position is that of the token's
position in its segment of `context` tokens, so that both can be compared.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.core.arguments import count
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model, require_streams
from seqloom.core.progress import Advance, Show, require_show, show_nothing
from seqloom.core.rest import Rest
from seqloom.core.state import select
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import Scores, require_logits, require_tokens, sum_scores, widen_logits
from seqloom.retrieval.neighbors import Neighbors, require_neighbors


def remembering(model: Model, length: int) -> Model:
    """A model of the same weights each of whose layers reads `length` tokens before its own, where it has a memory.

    Raises TypeError or ValueError for a length below 1, and for a model none of whose mixers has a window.
    """
    count("length", length, least=1)
    config = model.config
    if not isinstance(config, LayeredConfig) or not any(mixer.has_window for mixer in config.pattern):
        kinds = ", ".join(sorted({mixer.kind for mixer in config.mixers}))
        raise ValueError(f"{kinds} has no memory of a set length: choose a mixer that has, such as transformer_xl")
    return model.rebuild_with(config.with_window(length + 1))


def score_reading(
    model: Model,
    tokens: Tokens,
    *,
    batch: int = 64,
    context: int | None = None,
    neighbors: Neighbors | None = None,
    show: Show = show_nothing,
) -> Scores:
    """Scores a model on tokens, `batch` documents at a time, in segments of `context` tokens, the model's unless given.

    Leaves the model in its mode. With `neighbors` each prediction is mixed with theirs. `show` shows the progress.

    Raises TypeError or ValueError for arguments that do not fit, for tokens of another vocabulary, and for a model that
    does not stream.
    """
    require_streams(model, "read a text on")
    require_neighbors(neighbors)
    require_tokens(tokens, model.config.vocab)
    count("batch", batch, least=1)
    require_show(show)
    context = model.config.context if context is None else context
    count("context", context, least=1)
    require_logits(model, min(batch, tokens.documents), context)
    nats = torch.zeros(context, dtype=torch.float64)
    counts = torch.zeros(context, dtype=torch.float64)
    longest_first = np.argsort(tokens.starts - tokens.ends, kind="stable")
    with Rest(model), show("scoring", len(tokens), "tokens") as advance:
        for first in range(0, tokens.documents, batch):
            _read(model, tokens, longest_first[first : first + batch], context, nats, counts, neighbors, advance)
    return sum_scores(nats, counts, tokens)


def _read(
    model: Model,
    tokens: Tokens,
    documents: "np.ndarray",
    context: int,
    nats: Tensor,
    counts: Tensor,
    neighbors: Neighbors | None,
    advance: Advance,
) -> None:
    """Reads documents in one batch, the longest first; adds the nats and the count of each position of a segment."""
    state = model.start(len(documents))
    sizes = (tokens.ends - tokens.starts)[documents]
    for begin in range(0, int(sizes[0]), context):
        rows = int((sizes > begin).sum())  # the documents that have not ended
        if rows < len(state.extra["length"]):
            state = select(state, torch.arange(rows, device=model.device))
        positions = begin + np.arange(min(context, int(sizes[0]) - begin))  # in each document (T,)
        keep = torch.from_numpy(positions < sizes[:rows, None])
        indices = np.minimum(tokens.starts[documents[:rows], None] + positions, len(tokens) - 1)  # in the text (B, T)
        targets = torch.from_numpy(tokens.ids[indices].astype(np.int64))
        previous = tokens.ids[np.maximum(indices - 1, 0)].astype(np.int64)
        inputs = torch.from_numpy(np.where(positions == 0, tokens.eos, previous))
        logits, state = model.extend(inputs.to(model.device), state, keep.to(model.device))
        loss = cross_entropy(widen_logits(logits).transpose(1, 2), targets.to(model.device), reduction="none").cpu()
        if neighbors is not None:
            loss = neighbors.nats(loss, targets, keep)
        nats[: len(positions)] += torch.where(keep, loss.double(), 0.0).sum(0)
        counts[: len(positions)] += keep.sum(0)
        advance(int(keep.sum()))

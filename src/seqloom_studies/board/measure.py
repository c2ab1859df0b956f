"""What is measured of a trained model: its loss on a test text, by position and by author, and the bytes of its state.

    bits per byte = Σ -log2 p over all tokens of a text / the UTF-8 bytes of the text

Each token is predicted once, `<eos>` of each document included. Windows of at most the context are read at once; longer
ones in pieces, each from the state after the one before it.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.core.model import Model
from seqloom.core.state import nbytes
from seqloom.data.tokens import Tokens
from seqloom.data.windows import cut, held_out
from seqloom.evaluation.scores import widen_logits

EDGES = (0, 64, 256, 512, 1024, 2048)
"""the numbers of tokens at which spans of positions begin and end"""
PIECE = 512
"""tokens of a piece that is read from a state"""
LENGTHS = (512, 2048, 8192)
"""tokens of a text after which the size of the state is measured"""


@final
class Spans:
    """The loss of a text whose tokens are each predicted once, in windows of `length` tokens, `rows` at a time."""

    def __init__(self, model: Model, tokens: Tokens, length: int, rows: int) -> None:
        firsts, _, _ = cut(tokens, length)
        document_of = torch.from_numpy(np.searchsorted(tokens.starts, firsts, side="right") - 1)
        nats_at, counts = (torch.zeros(length, dtype=torch.float64) for _ in range(2))
        nats_of = torch.zeros(tokens.documents, dtype=torch.float64)
        read = 0
        for inputs, targets, counted in held_out(tokens, length, rows):
            losses = target_losses(model, inputs.to(model.device), targets.to(model.device)).cpu()
            nats = torch.where(counted, losses, 0.0).double()
            nats_at += nats.sum(0)
            counts += counted.sum(0)
            nats_of.index_add_(0, document_of[read : read + len(nats)], nats.sum(1))
            read += len(nats)
        total, count = float(nats_at.sum()), int(counts.sum())
        assert count == len(tokens), "a token was left out or predicted twice"
        self.loss = total / count
        """nats per token"""
        bits = count / int(tokens.sizes.sum()) / math.log(2)
        self.bits_per_byte = self.loss * bits
        self.by_position = {
            f"{first + 1}-{last}": float(nats_at[first:last].sum() / counts[first:last].sum()) * bits
            for first, last in pairwise(EDGES)
            if last <= length and counts[first:last].sum()
        }
        """bits per byte by the number of tokens of the window that come before the predicted one; their mean, weighted
        by their tokens, is `bits_per_byte`"""
        self.bits_of = (nats_of / math.log(2)).tolist()
        """bits of each document"""

    def by_author(self, authors: Sequence[str], tokens: Tokens) -> dict[str, tuple[float, int]]:
        """Bits and bytes of all documents of each author; `authors` are those of the documents, in order."""
        sums: dict[str, tuple[float, int]] = {}
        for author, bits, size in zip(authors, self.bits_of, tokens.sizes.tolist(), strict=True):
            earlier_bits, earlier_bytes = sums.get(author, (0.0, 0))
            sums[author] = (earlier_bits + bits, earlier_bytes + size)
        return sums


def target_losses(model: Model, inputs: Int[Tensor, "B T"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
    """The loss of each target in nats; where T is above the context, the window is read in pieces."""
    if inputs.shape[1] <= model.config.context:
        return cross_entropy(widen_logits(model(inputs)).transpose(1, 2), targets, reduction="none")
    state = model.start(len(inputs))
    losses = []
    for piece, piece_targets in zip(inputs.split(PIECE, 1), targets.split(PIECE, 1), strict=True):
        logits, state = model.extend(piece, state)
        losses.append(cross_entropy(widen_logits(logits).transpose(1, 2), piece_targets, reduction="none"))
    return torch.cat(losses, 1)


def state_bytes(model: Model, tokens: Tokens) -> dict[str, int]:
    """Bytes of the state of one row, by the number of tokens (`LENGTHS`) that it has read of the text."""
    text = torch.from_numpy(tokens.ids[: LENGTHS[-1]].astype("int64"))[None].to(model.device)
    stops = (*LENGTHS, text.shape[1])
    state = model.start(1)
    sizes: dict[str, int] = {}
    read = 0
    while read < text.shape[1]:
        next_stop = min(stop for stop in stops if stop > read)
        end = min(next_stop, read + PIECE)
        _, state = model.read(text[:, read:end], state)
        read = end
        if read in LENGTHS:
            sizes[str(read)] = nbytes(model.trim(state))
    return sizes

"""A text token by token: how surprised a model is by each, and which earlier tokens its prediction depends on.

    surprise      -ln p(x_t | x_<t)                               in nats, after <eos>
    dependence    ln p(x_t | x_<t) - ln p(x_t | x_<t, x_j replaced)       for each j < t

A model that reads on from a state for any length reads the text once; another reads windows, of which the second half
is scored. A replaced token is another one of the vocabulary, drawn by a seed.
"""

from dataclasses import dataclass
from math import log

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.arguments import count
from seqloom.core.model import Model, require_generates
from seqloom.core.rest import Rest
from seqloom.generation.modes import PIECE, default_mode, window

ROWS = 64
"""texts with a replaced token that are read at once"""


@dataclass(frozen=True)
class Surprise:
    """The tokens of a text, and what each costs."""

    ids: list[int]
    pieces: list[str]
    """the characters that each token completes; joined, they are the text"""
    nats: list[float]
    bytes: int

    @property
    def bits_per_byte(self) -> float:
        """Of the whole text."""
        return sum(self.nats) / log(2) / self.bytes


def surprise(model: Model, text: str) -> Surprise:
    """The surprise of each token of a text. ValueError for an empty text and a model without a tokenizer."""
    require_generates(model)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer to read a text with: set model.tokenizer")
    if not text:
        raise ValueError("the text is empty: give at least one character")
    ids = list(model.tokenizer.encode(text))
    eos = int(model.tokenizer.eos)
    with Rest(model):
        log_p = _log_p(model, torch.tensor([eos, *ids], device=model.device))
    stream = model.tokenizer.stream(())
    pieces = [stream.push(id) for id in ids]
    pieces[-1] += stream.finish()
    return Surprise(ids, pieces, (-log_p).tolist(), len(text.encode("utf-8")))


def dependence(model: Model, ids: list[int], position: int, *, most: int = 128, seed: int = 0) -> list[float]:
    """What token `position` of a text loses in ln p where each of the `most` tokens before it is replaced, in order.

    ValueError for a position without an earlier token, or outside of the text.
    """
    require_generates(model)
    count("position", position, least=1)
    count("most", most, least=1)
    if position >= len(ids):
        raise ValueError(f"position {position} lies outside a text of {len(ids)} tokens")
    first = max(0, position - min(most, window(model)))
    before = torch.tensor(ids[first:position], device=model.device)
    W = model.config.vocab
    shift = torch.randint(1, max(W, 2), (len(before),), generator=torch.Generator().manual_seed(seed))
    rows = before.repeat(len(before) + 1, 1)  # the first is the text itself
    places = torch.arange(len(before), device=model.device)
    rows[places + 1, places] = (before + shift.to(model.device)) % W
    with Rest(model):
        log_p = torch.cat([_next_log_p(model, part)[:, ids[position]] for part in rows.split(ROWS)])
    return (log_p[0] - log_p[1:]).tolist()


def _next_log_p(model: Model, rows: Int[Tensor, "B T"]) -> Float[Tensor, "B W"]:
    """ln p of the token after each row."""
    return model(rows)[:, -1].double().log_softmax(1)


def _log_p(model: Model, ids: Int[Tensor, " T"]) -> Float[Tensor, " N"]:
    """ln p of each id but the first, N = T - 1, given those before it."""
    targets = ids[1:]
    logits = _stream_logits(model, ids) if default_mode(model) == "stream" else _window_logits(model, ids)
    return logits.double().log_softmax(1).gather(1, targets[:, None])[:, 0]


def _stream_logits(model: Model, ids: Int[Tensor, " T"]) -> Float[Tensor, "N W"]:
    """Logits after each id but the last, read in pieces from a state."""
    state = model.start(1)
    logits = []
    for piece in ids[:-1].split(PIECE):
        z, state = model.extend(piece[None], state)
        logits.append(z[0])
    return torch.cat(logits)


def _window_logits(model: Model, ids: Int[Tensor, " T"]) -> Float[Tensor, "N W"]:
    """Logits after each id but the last, read in windows that overlap by half."""
    L = window(model)
    stride = max(1, L // 2)
    logits = [model(ids[None, :-1][:, :L])[0]]
    done = len(logits[0])
    while done < len(ids) - 1:
        end = min(done + stride, len(ids) - 1)
        z = model(ids[None, max(0, end - L) : end])[0]
        logits.append(z[done - end :])
        done = end
    return torch.cat(logits)

"""A model's predictions along tokens that may be taken back.

    ahead.predict(ids, first)     logits after the text and ids[:i], for i = first … len(ids)
    ahead.keep(ids)               the text goes on by these, whichever of them were predicted along

A state cannot be undone in general, so none is: older states are held until it is known which tokens stay, and the next
reading begins at the newest state that has read none but these. So it works for any mixer that reads on from a state.
`Windowed` is mode `slide` (`seqloom.generation.modes`): once the window is full, it is read again for each prediction.
"""

from abc import ABC, abstractmethod
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor
from typing_extensions import override

from seqloom.core.model import Model
from seqloom.core.state import ModelState
from seqloom.generation.modes import PIECE, Mode, streams, window

UNREAD = 32
"""tokens that are read again at most, rather than once by themselves"""


class Ahead(ABC):
    """A model and one text."""

    @abstractmethod
    def predict(self, ids: list[int], first: int = 0) -> Float[Tensor, "N W"]:
        """Logits after the text and the first i of `ids`, for each i from `first` to all."""

    @abstractmethod
    def keep(self, ids: list[int]) -> None:
        """Takes ids into the text, at least one."""


@final
class Streamed(Ahead):
    """It reads from states: `_base` is after the text but for the ids in `_unread`, of which there is at least one."""

    def __init__(self, model: Model, prompt: list[int]) -> None:
        self._model = model
        self._base = model.start(1)
        self._unread: list[int] = []
        self._tried: list[int] = []
        self._known: list[tuple[int, ModelState]] = []
        """states after the text and so many of the ids that were tried last"""
        for first in range(0, len(prompt) - 1, PIECE):
            _, self._base = model.read(self._tensor(prompt[:-1][first : first + PIECE]), self._base)
        self._unread = prompt[-1:]

    @override
    def predict(self, ids: list[int], first: int = 0) -> Float[Tensor, "N W"]:
        common = _common(ids, self._tried)
        self._known = [(count, state) for count, state in self._known if count <= common]
        before = [(count, state) for count, state in self._known if count < first]
        count, state = before[-1] if before else (-len(self._unread), self._base)
        piece = (self._unread + ids)[len(self._unread) + count :]
        if len(piece) == 1:
            logits, state = self._model.step(self._tensor(piece)[0], state)
        else:
            x, state = self._model.read(self._tensor(piece), state)
            logits = self._model.logits(x[:, first - count - 1 :])[0]
        self._tried = ids.copy()
        self._known = [(n, known) for n, known in self._known if n < len(ids)] + [(len(ids), state)]
        return logits

    @override
    def keep(self, ids: list[int]) -> None:
        common = min(_common(ids, self._tried), len(ids) - 1)
        known = [(count, state) for count, state in self._known if count <= common]
        if known:
            count, self._base = known[-1]
            self._unread = ids[count:]
        else:
            self._unread = self._unread + ids
        if len(self._unread) > UNREAD:
            _, self._base = self._model.read(self._tensor(self._unread[:-1]), self._base)
            self._unread = self._unread[-1:]
        self._tried, self._known = [], []

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], device=self._model.device)


@final
class Windowed(Ahead):
    """It reads from states until the window is full, and then each window whole."""

    def __init__(self, model: Model, prompt: list[int], hop: int) -> None:
        self._model, self._hop, self._length = model, hop, window(model)
        self._text = prompt.copy()
        self._full = max(len(prompt), self._length)
        fits = streams(model) and len(prompt) <= self._length
        self._streamed = Streamed(model, prompt) if fits else None

    @override
    def predict(self, ids: list[int], first: int = 0) -> Float[Tensor, "N W"]:
        if self._streamed is not None and len(self._text) + len(ids) <= self._length:
            return self._streamed.predict(ids, first)
        everything = self._text + ids
        ends = range(len(self._text) + first, len(everything) + 1)
        logits = []
        for start in dict.fromkeys(self._start(end) for end in ends):  # windows with the same start are read together
            of_window = [end for end in ends if self._start(end) == start]
            read = torch.tensor([everything[start : of_window[-1]]], device=self._model.device)
            x = self._model.features(read)
            logits.append(self._model.logits(x[:, of_window[0] - start - 1 :])[0])
        return torch.cat(logits)

    @override
    def keep(self, ids: list[int]) -> None:
        self._text += ids
        if self._streamed is not None:
            if len(self._text) <= self._length:
                self._streamed.keep(ids)
            else:
                self._streamed = None

    def _start(self, end: int) -> int:
        """Where the window begins that the token after the first `end` is predicted from."""
        if end <= self._full:
            return max(end - self._length, 0)
        return end - (self._length - self._hop + 1 + (end - self._full - 1) % self._hop)


def ahead(model: Model, prompt: list[int], mode: Mode, hop: int) -> Ahead:
    """The text of a prompt as a model reads it in a mode."""
    return Streamed(model, prompt) if mode == "stream" else Windowed(model, prompt, hop)


def _common(ids: list[int], others: list[int]) -> int:
    """How many first ids are equal."""
    count = 0
    for one, other in zip(ids, others, strict=False):
        if one != other:
            break
        count += 1
    return count

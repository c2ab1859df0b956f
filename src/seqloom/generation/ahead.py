"""A model's predictions along tokens that may be taken back.

    ahead.predict(ids, first)     logits after the text and ids[:i], for i = first … len(ids)
    ahead.keep(ids)               appends ids to the text, whether or not `predict` has read them

A state cannot be undone in general. So older states are held until it is known which tokens stay, and the next reading
begins at the newest state that has read only tokens that stay. This works for any mixer that reads on from a state.
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

MAX_UNREAD = 32
"""the most tokens of the text that are read again with each prediction; more are first read into the state"""


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
    """Reads from states. `_base` is the state after the text without its last ids `_unread`, at least one."""

    def __init__(self, model: Model, prompt: list[int]) -> None:
        self._model = model
        self._base = model.start(1)
        self._unread: list[int] = []
        self._predicted: list[int] = []
        """the ids of the last `predict`, until `keep`"""
        self._states: list[tuple[int, ModelState]] = []
        """(n, the state after the text and the first n of `_predicted`), n ascending"""
        for first in range(0, len(prompt) - 1, PIECE):
            _, self._base = model.read(self._tensor(prompt[:-1][first : first + PIECE]), self._base)
        self._unread = prompt[-1:]

    @override
    def predict(self, ids: list[int], first: int = 0) -> Float[Tensor, "N W"]:
        common = _common_prefix(ids, self._predicted)
        self._states = [(count, state) for count, state in self._states if count <= common]
        usable = [(count, state) for count, state in self._states if count < first]
        # the state after the first `count` of ids; a negative count: it has not read so many last tokens of the text
        count, state = usable[-1] if usable else (-len(self._unread), self._base)
        piece = (self._unread + ids)[len(self._unread) + count :]
        if len(piece) == 1:
            logits, state = self._model.step(self._tensor(piece)[0], state)
        else:
            x, state = self._model.read(self._tensor(piece), state)
            logits = self._model.logits(x[:, first - count - 1 :])[0]
        self._predicted = ids.copy()
        earlier = [(count, state) for count, state in self._states if count < len(ids)]
        self._states = [*earlier, (len(ids), state)]
        return logits

    @override
    def keep(self, ids: list[int]) -> None:
        common = min(_common_prefix(ids, self._predicted), len(ids) - 1)  # the last id stays unread
        usable = [(count, state) for count, state in self._states if count <= common]
        if usable:
            count, self._base = usable[-1]
            self._unread = ids[count:]
        else:
            self._unread = self._unread + ids
        if len(self._unread) > MAX_UNREAD:
            _, self._base = self._model.read(self._tensor(self._unread[:-1]), self._base)
            self._unread = self._unread[-1:]
        self._predicted = []
        self._states = []

    def _tensor(self, ids: list[int]) -> Tensor:
        return torch.tensor([ids], device=self._model.device)


@final
class Windowed(Ahead):
    """Reads from states until the window is full, and from then on each window whole."""

    def __init__(self, model: Model, prompt: list[int], hop: int) -> None:
        self._model = model
        self._hop = hop
        self._length = window(model)
        self._text = prompt.copy()
        self._full = max(len(prompt), self._length)
        has_state = streams(model) and len(prompt) <= self._length
        self._streamed = Streamed(model, prompt) if has_state else None

    @override
    def predict(self, ids: list[int], first: int = 0) -> Float[Tensor, "N W"]:
        if self._streamed is not None and len(self._text) + len(ids) <= self._length:
            return self._streamed.predict(ids, first)
        extended = self._text + ids
        ends = range(len(self._text) + first, len(extended) + 1)
        logits = []
        for start in dict.fromkeys(self._start(end) for end in ends):  # windows with the same start are read together
            window_ends = [end for end in ends if self._start(end) == start]
            longest_window = torch.tensor([extended[start : window_ends[-1]]], device=self._model.device)
            x = self._model.features(longest_window)
            logits.append(self._model.logits(x[:, window_ends[0] - start - 1 :])[0])
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
        """The index where the window begins from which the token after the first `end` tokens is predicted."""
        if end <= self._full:
            return max(end - self._length, 0)
        return end - (self._length - self._hop + 1 + (end - self._full - 1) % self._hop)


def ahead(model: Model, prompt: list[int], mode: Mode, hop: int) -> Ahead:
    """The text of a prompt as a model reads it in a mode."""
    return Streamed(model, prompt) if mode == "stream" else Windowed(model, prompt, hop)


def _common_prefix(ids: list[int], others: list[int]) -> int:
    """The number of ids that both lists begin with."""
    count = 0
    for id, other in zip(ids, others, strict=False):
        if id != other:
            break
        count += 1
    return count

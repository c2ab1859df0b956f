"""Two ways to continue a text: rereading a window of it, or reading it once from a state. Their outputs differ.

    slide    p(x_{t+1}) = model(x_{t-n+1} … x_t), positions from 0,   n tokens in the window
             n = min(t, L)                                    while t ≤ max(P, L)
             n = L - h + 1 + (t - max(P, L) - 1) mod h        after
    stream   p(x_{t+1}) = model(x_1 … x_t), in which each layer looks back on L tokens of the layer below

t tokens of text so far, P of them the prompt; L is the context (or what the model takes, if less), h the hop. When the
window is full, the oldest h tokens are dropped at once and the rest is read again; until it is full again each token is
read alone. So with hop h the window holds L-h+1 to L tokens once it was full, and with h = 1 always L.

A mode that is not named is `default_mode`: stream where every layer reads on from a state for any length, as recurrent
models without learned positions do, which costs one token read per token written.

Source: slide with h = 1 is the Extractor paper's Eq. 2. Longer hops and stream are ours.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Literal, TypeAlias, final, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.config import suggestion
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model, require_generates
from seqloom.core.shapes import Ids
from seqloom.core.state import ModelState, select
from seqloom.generation import compiled
from seqloom.models.arguments import check_whole

Mode: TypeAlias = Literal["slide", "stream"]
Step: TypeAlias = Callable[[Tensor, ModelState], tuple[Tensor, ModelState]]
"""ids (B,) and a state, which may be overwritten → logits (B, W) and the state after the ids"""
PIECE = 512
"""Tokens of a prompt that `stream` reads at once: bounds the memory that a long prompt takes."""


class Reader(ABC):
    """A model, and its state after the tokens of B texts so far."""

    @abstractmethod
    def prompt(self, ids: Ids) -> Float[Tensor, "B W"]:
        """Reads the prompts, once; logits of their next tokens."""

    @abstractmethod
    def token(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B W"]:
        """Reads one further token of each text; logits of the next ones."""

    @abstractmethod
    def choose(self, rows: Int[Tensor, " N"]) -> None:
        """Replaces the B texts by N copies of the given rows: beam search reorders and repeats them."""


@final
class Slide(Reader):
    """Mode `slide`. A model that cannot stream rereads the window for every token; the logits are the same."""

    def __init__(self, model: Model, hop: int, step: Step | None = None) -> None:
        self._model = model
        self._hop = hop
        self._length = window(model)
        self._step = step or (lambda ids, state: model.step(ids, state, reuse=True))
        self._streams = streams(model)
        self._state: ModelState | None = None

    @override
    def prompt(self, ids: Ids) -> Float[Tensor, "B W"]:
        self._window = ids[:, -self._length :]
        return self._read()

    @override
    def token(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B W"]:
        full = self._window.shape[1] == self._length
        recent = self._window[:, self._hop :] if full else self._window
        self._window = torch.cat([recent, ids[:, None]], 1)
        if full or self._state is None:
            return self._read()
        logits, self._state = self._step(ids, self._state)
        return logits

    @override
    def choose(self, rows: Int[Tensor, " N"]) -> None:
        self._window = self._window[rows]
        self._state = None if self._state is None else select(self._state, rows)

    def _read(self) -> Tensor:
        """Reads the window, with a state where the next token can continue from it; logits of the next token."""
        if not self._streams or self._window.shape[1] == self._length:
            self._state = None  # not needed: the window is read again for the next token
            x = self._model.features(self._window)
        else:
            empty = self._model.start(len(self._window), capacity=self._length)
            x, self._state = self._model.read(self._window, empty)
        return self._model.logits(x[:, -1:])[:, 0]


@final
class Stream(Reader):
    """Mode `stream`: its memory is the model's state."""

    def __init__(self, model: Model, step: Step | None = None, capacity: int | None = None) -> None:
        self._model = model
        self._capacity = capacity
        self._step = step or (lambda ids, state: model.step(ids, state, reuse=True))

    @override
    def prompt(self, ids: Ids) -> Float[Tensor, "B W"]:
        self._state = self._model.start(len(ids), capacity=self._capacity)
        for piece in ids.split(PIECE, 1):
            x, self._state = self._model.read(piece, self._state)
        return self._model.logits(x[:, -1:])[:, 0]

    @override
    def token(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B W"]:
        logits, self._state = self._step(ids, self._state)
        return logits

    @override
    def choose(self, rows: Int[Tensor, " N"]) -> None:
        self._state = select(self._state, rows)


def window(model: Model) -> int:
    """The most tokens that `slide` reads at once: the context, or the model's `longest` where that is less."""
    context = model.config.context
    return min(context, model.traits.longest or context)


def streams(model: Model) -> bool:
    """Whether every layer can continue from a state."""
    return model.traits.streams


def default_mode(model: Model, hop: int = 1) -> Mode:
    """The mode of a model where none is named: `stream` where it reads on from a state for any length, else `slide`.

    A hop other than 1 is of `slide` alone.
    """
    traits = model.traits
    return "stream" if hop == 1 and traits.streams and traits.longest is None else "slide"


def reader(
    model: Model,
    mode: Mode | None,
    hop: int,
    prompt: int,
    max_tokens: int,
    step: Step | None = None,
    compile: bool | None = False,
) -> Reader:
    """The reader of a mode for prompts of `prompt` tokens that are continued by `max_tokens` tokens.

    `step` replaces the model's own step, and `compile` compiles it, as `compiled.choose_compile` says. Raises
    ValueError as `checked_mode` does.
    """
    mode = checked_mode(model, mode, hop, prompt, max_tokens)
    if step is None and compiled.choose_compile(model, compile, max_tokens if mode == "stream" else 0):
        step = compiled.CompiledStep(model)
        return Slide(model, hop, step) if mode == "slide" else Stream(model, step, compiled.room(prompt + max_tokens))
    return Slide(model, hop, step) if mode == "slide" else Stream(model, step)


def checked_mode(model: Model, mode: Mode | None, hop: int, prompt: int, max_tokens: int) -> Mode:
    """The mode, or the default one. ValueError where the model cannot generate a text of this length in it.

    The error names an alternative. TypeError for another object than a model, and for numbers that are not ints.
    """
    require_generates(model)
    if mode is not None and mode not in get_args(Mode):
        raise ValueError(f"unknown mode {mode!r}; {suggestion(str(mode), get_args(Mode))}")
    for name, value in {"the prompt's length": prompt, "max_tokens": max_tokens, "hop": hop}.items():
        check_whole(name, value)
    if prompt < 1:
        raise ValueError("the prompt is empty: give at least one token")
    if max_tokens < 1:
        raise ValueError(f"max_tokens must be at least 1, not {max_tokens}")
    mode = default_mode(model, hop) if mode is None else mode
    if mode == "stream":
        _check_stream(model, hop, prompt, max_tokens)
    elif not 1 <= hop <= window(model):
        raise ValueError(f"hop must lie in 1 … {window(model)} (the tokens of the window), not {hop}")
    return mode


def _check_stream(model: Model, hop: int, prompt: int, max_tokens: int) -> None:
    """ValueError where the model cannot read a text of this length from its start, token by token from a state."""
    if hop != 1:
        raise ValueError(f"mode 'stream' reads nothing again and has no hop: leave out hop={hop}, or use mode 'slide'")
    mixers = zip(model.config.mixers, model.mixers, strict=True)
    unable = {config.kind for config, mixer in mixers if not mixer.traits.streams}
    if unable:
        raise ValueError(f"mixer {', '.join(sorted(unable))} cannot read on from a state: use mode 'slide'")
    length = prompt + max_tokens - 1  # the model never reads the last token
    longest = model.traits.longest
    if longest is not None and length > longest:
        fewer_tokens = f", max_tokens of at most {longest - prompt + 1}" if prompt <= longest else ""
        config = model.config
        embedded = isinstance(config, LayeredConfig) and config.position.place == "embedding"
        other_model = ", or a model trained with model.position=none" if embedded else ""
        raise ValueError(
            f"mode 'stream' would read {length} tokens ({prompt} of the prompt), the model takes {longest}: "
            f"use mode 'slide'{fewer_tokens}{other_model}"
        )

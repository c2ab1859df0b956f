"""A model as graphs of torch's own operations.

    forward    ids (B, T) → logits (B, T, W)
    start      ids (B,) → state                        the state before the first token, of as many rows as the ids
    step       ids (B,), state → logits (B, W), state  the logits after one more token

A state is a dict of tensors by path, such as `layers.0.0.k`, as `seqloom.core.state.flat` names them; entries that grow
have room for `capacity` tokens. `start` and `step` are there where the model streams; a model that reads in both
directions takes `keep` (B, T) of bool in `forward`, False at padding. The graphs take any number of rows B. The number
of tokens T is free from 2 to `length` where the mixers' graph is the same for all T, else it is `length` exactly; a
decoder then reads a shorter text with anything after it.
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias, final

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram
from torch.export import export as trace

from seqloom.core.arguments import count
from seqloom.core.model import Model, require_model
from seqloom.core.state import ModelState, fill_state, flat
from seqloom.models.number_reader import NumberReader

Flat: TypeAlias = dict[str, Tensor]
"""a state by paths"""
EXAMPLE_ROWS = 3
"""rows of the inputs with which a graph is traced: not 1, which torch would take for a constant"""
LONGEST = 128
"""tokens that `forward` reads where the model has no context"""


@final
class Graphs(NamedTuple):
    """The traced graphs of a model, and what their sizes are."""

    programs: dict[str, ExportedProgram]
    """`forward`, and for a model that streams `start` and `step`"""
    state: tuple[str, ...]
    """the paths of the state's entries, in the order in which the graphs take and return them"""
    length: int
    """the most tokens that `forward` reads"""
    free_length: bool
    """whether it also reads fewer"""
    capacity: int
    """the tokens for which `start` makes room"""


@final
class Forward(nn.Module):
    """`Model.forward` of a decoder."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) → (B, T, W)."""
        logits: Tensor = self.model(ids)
        return logits


@final
class ForwardKeep(nn.Module):
    """`Model.forward` of a model that reads in both directions."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self.model = model

    def forward(self, ids: Tensor, keep: Tensor) -> Tensor:
        """(B, T) → (B, T, W)."""
        logits: Tensor = self.model(ids, keep)
        return logits


@final
class Start(nn.Module):
    """`Model.start`, of as many rows as the ids."""

    def __init__(self, model: Model, capacity: int) -> None:
        super().__init__()
        self.model = model
        self.capacity = capacity

    def forward(self, ids: Tensor) -> Flat:
        """(B,) → the state before the first token."""
        return flat(self.model.start(ids.shape[0], capacity=self.capacity))


@final
class Step(nn.Module):
    """`Model.step`, which leaves the given state as it is."""

    def __init__(self, model: Model, template: ModelState) -> None:
        super().__init__()
        self.model = model
        self.template = template

    def forward(self, ids: Tensor, state: Flat) -> tuple[Tensor, Flat]:
        """(B,) and the state → (B, W) and the state after the token."""
        logits, after = self.model.step(ids, fill_state(self.template, state))
        return logits, flat(after)


def trace_graphs(model: Model, length: int | None = None, capacity: int | None = None) -> Graphs:
    """The graphs of a model in evaluation mode, for texts of `length` tokens and states of `capacity` tokens.

    Both are by default the model's context. TypeError unless it is a model of seqloom; ValueError for one that looks up
    in a store, translates, is in training mode, or that torch.export cannot trace, with torch's reason.
    """
    require_model(model)
    _require_plain(model)
    context = getattr(model.config, "context", None) or LONGEST
    length = _length(model, "length", context if length is None else length)
    capacity = _length(model, "capacity", context if capacity is None else capacity)
    ids = torch.zeros(EXAMPLE_ROWS, length, dtype=torch.long, device=model.device)
    with torch.no_grad():
        whole, free_length = _trace_whole(model, ids)
        programs = {"forward": whole}
        state: tuple[str, ...] = ()
        if model.traits.streams:
            template = model.start(EXAMPLE_ROWS, capacity=capacity)
            tokens, entries = ids[:, 0], flat(template)
            model.step(tokens, template)  # so that what is computed once is not part of the graph
            state = tuple(entries)
            rows = {name: {0: _rows()} for name in state}
            programs["start"] = _trace("start", Start(model, capacity), (tokens,), ({0: _rows()},))
            programs["step"] = _trace("step", Step(model, template), (tokens, entries), ({0: _rows()}, rows))
    return Graphs(programs, state, length, free_length, capacity)


def _require_plain(model: Model) -> None:
    """Raises ValueError for a model whose passes need more than ids."""
    if model.training:
        raise ValueError("the model is in training mode: call model.eval() before it is traced")
    if model.traits.translates or model.config.objective == "pairs":
        raise ValueError(f"a model of kind {model.config.kind} reads a source and a target: its graph is not exported")
    if isinstance(model, NumberReader):
        raise ValueError(f"a model of kind {model.config.kind} reads numbers, and no tokens: its graph is not exported")
    if model.config.looks_up:
        raise ValueError(f"a model of kind {model.config.kind} looks up in a store, which no graph can")


def _length(model: Model, name: str, tokens: int) -> int:
    """The tokens. ValueError where they are fewer than 2, or more than the model reads."""
    count(name, tokens, 2)
    longest = model.traits.longest
    if longest is not None and tokens > longest:
        raise ValueError(f"{name} is at most {longest}, the longest text that this model reads, not {tokens}")
    return tokens


def _trace_whole(model: Model, ids: Tensor) -> tuple[ExportedProgram, bool]:
    """The graph of `forward`, and whether it reads any number of tokens."""
    causal = model.traits.generates
    inputs = (ids,) if causal else (ids, torch.ones_like(ids, dtype=torch.bool))
    module = Forward(model) if causal else ForwardKeep(model)
    module(*inputs)  # so that what is computed once is not part of the graph
    tokens = Dim("length", min=2, max=ids.shape[1]) if ids.shape[1] > 2 else None
    if tokens is not None:
        try:
            return _trace("forward", module, inputs, tuple({0: _rows(), 1: tokens} for _ in inputs)), True
        except ValueError:
            pass  # the graph depends on T
    return _trace("forward", module, inputs, tuple({0: _rows()} for _ in inputs)), False


@contextmanager
def quiet() -> Iterator[None]:
    """Without torch's log and warnings, which a graph that is refused, and one that is not, fill with pages."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def _rows() -> Dim:
    return Dim("batch", min=1)


def _trace(name: str, module: nn.Module, inputs: tuple[Any, ...], sizes: Any) -> ExportedProgram:
    """The graph of the module, with `sizes` free. ValueError, in one line, where torch cannot trace it."""
    try:
        with quiet():
            return trace(module, inputs, dynamic_shapes=sizes, strict=True)
    except Exception as error:  # torch raises dozens of kinds, AssertionError among them
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ValueError(f"torch.export cannot trace {name} of this model: {reason}") from error

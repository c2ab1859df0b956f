"""A model's step as one compiled graph: torch traces it for the first token, and every later token runs that graph.

    step = CompiledStep(model)
    state = model.start(1, capacity=tokens)             # a graph changes no shape, so that the host gives the room
    logits, state = step(ids, state)                    # the state is overwritten

Graphs are kept for as long as the model is, and torch keeps the code it compiled on disk (TORCHINDUCTOR_CACHE_DIR), so
that another process compiles the same model in a fraction of the time. Where nothing can be compiled, such as without a
compiler of C++, one line on standard error says so, and `Model.step` computes the tokens.
"""

import sys
from collections.abc import Callable
from typing import Any, TypeAlias, final
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.model import Model, require_streams
from seqloom.core.state import ModelState
from seqloom.models.arguments import check_flag

LONG = 10_000
"""tokens from which on compiling is worth its time where nothing else is said (docs/log.md)"""
GRAPHS = 64
"""the most graphs of one model, each for other sizes of the state"""
Compiled: TypeAlias = Callable[[Model, Tensor, ModelState], tuple[Tensor, ModelState]]
_compiled: WeakKeyDictionary[Model, Compiled] = WeakKeyDictionary()


def compiler_errors() -> tuple[type[Exception], ...]:
    """The errors of torch's compiler, which takes seconds to import."""
    return torch._dynamo.exc.TorchDynamoException, torch._dynamo.exc.FailOnRecompileLimitHit


@final
class CompiledStep:
    """`model.step(ids, state, reuse=True)`, compiled at the first call."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._begun = False
        self._failed = False

    def __call__(self, ids: Int[Tensor, " B"], state: ModelState) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits of the token after `ids`, and the state after it; the given state is overwritten."""
        if self._failed:
            return self._model.step(ids, state, reuse=True)
        if self._begun:
            return _compiled[self._model](self._model, ids, state)
        return self._first(ids, state)

    def _first(self, ids: Tensor, state: ModelState) -> tuple[Tensor, ModelState]:
        """The first call, which compiles; where that fails, this and all later calls are of the model's own step."""
        if self._model not in _compiled:
            _compiled[self._model] = _compile()
        try:
            result = _compiled[self._model](self._model, ids, state)
        except compiler_errors() as error:  # before anything ran: the state is as it was
            self._failed = True
            print(f"seqloom: the model's step is not compiled: {_reason(error)}", file=sys.stderr)
            return self._model.step(ids, state, reuse=True)
        self._begun = True
        return result


def choose_compile(model: Model, compile: Any, tokens: int) -> bool:
    """Whether to compile for so many tokens: as `compile` says, or if it is None where there are enough of them.

    TypeError for another value, ValueError where a model without a step is to be compiled.
    """
    if compile is None:
        return tokens >= LONG and model.traits.streams
    check_flag("compile", compile)
    if compile:
        require_streams(model, "be compiled for single tokens")
    return bool(compile)


def room(tokens: int) -> int:
    """The room of a state, in tokens, for so many: a power of 2, so that texts of all lengths share graphs."""
    return 1 << max(tokens - 1, 127).bit_length()


def _compile() -> Compiled:
    """The step of the model that it is called with, whose graphs are its own."""

    def step(model: Model, ids: Tensor, state: ModelState) -> tuple[Tensor, ModelState]:
        return model.step(ids, state, reuse=True)

    options: Any = {"dynamic": False, "recompile_limit": GRAPHS, "isolate_recompiles": True}
    return torch.compile(step, fullgraph=True, **options)


def _reason(error: Exception) -> str:
    """The first line that says what was wrong."""
    cause = getattr(error, "inner_exception", error)  # of the compiler that torch called
    return next((line for line in str(cause).splitlines() if line.strip()), type(cause).__name__)

"""Layers compiled around their mixers: norms, residual sums, dropout and the feed-forward network become few kernels.

    norm | mixer | x + dropout(y), norm, feed-forward, + dropout(·)          compiled | as it is | compiled

A layer is traced once for all layers of its kind. Its mixer is not traced: it runs by the backend that its op chooses
without a compiler, so that neither compiling nor capturing changes a backend. The norm before the output layer is
compiled, too, and that layer where its logits are asked for.

Compiled code rounds differently, and its dropout draws other numbers. Importing this imports torch's compiler.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar, final

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.models.block import Block
from seqloom.models.transformer import Transformer
from seqloom.models.verbs import LayerCall

T = TypeVar("T")
KINDS = 64
"""codes of one function, of models of different sizes in one process, after which torch compiles it no more"""


@final
class CompiledParts:
    """The layers and the output layer of a model, which run compiled code in `run`, and as they are elsewhere.

    Where they cannot be compiled, as without Triton on a GPU, one line says so and `run` runs them as they are.
    """

    def __init__(self, model: Transformer) -> None:
        torch._dynamo.config.recompile_limit = max(KINDS, torch._dynamo.config.recompile_limit)
        compile_part = partial(torch.compile, dynamic=False)
        layers = [module for module in model.modules() if isinstance(module, Block)]
        self._layers = {layer: _Around(compile_part(layer._call_impl)) for layer in layers}
        self._methods = {name: compile_part(getattr(model, name)) for name in ("output", "head_input")}
        self._model = model
        self._compiles = True

    def run(self, work: Callable[[], T]) -> T:
        """The result of work that calls the parts; it is done again where they cannot be compiled."""
        if not self._compiles:
            return work()
        try:
            with self._inside():
                return work()
        except torch._dynamo.exc.TorchDynamoException as error:
            self._compiles = False
            why = next(iter(str(error).strip().splitlines()), type(error).__name__)
            print(f"training goes on uncompiled, since compiling failed: {why[:200]}", file=sys.stderr)
            return work()

    @contextmanager
    def _inside(self) -> Iterator[None]:
        """Inside the block calls of the parts run compiled code."""
        for layer, call in self._layers.items():
            layer._compiled_call_impl = call  # as `Module.compile` sets it
        vars(self._model).update(self._methods)
        try:
            yield
        finally:
            for layer in self._layers:
                layer._compiled_call_impl = None
            for name in self._methods:
                del vars(self._model)[name]


@final
class _Around:
    """A compiled layer, whose mixer runs as it is."""

    def __init__(self, layer: Any) -> None:
        self._layer = layer

    def __call__(self, x: Tensor, call: LayerCall) -> Tensor:
        y: Tensor = self._layer(x, _MixerOutside(call))
        return y


@final
class _MixerOutside:
    """A call of a layer in which the first sublayer is not traced."""

    def __init__(self, call: LayerCall) -> None:
        self._call = call

    def __call__(self, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        return _run_mixer(self._call, sublayer, z) if number == 0 else self._call(number, sublayer, z)


@torch.compiler.disable  # type: ignore[untyped-decorator]  # torch's
def _run_mixer(call: LayerCall, mixer: Mixer, z: Tensor) -> Tensor:
    return call(0, mixer, z)

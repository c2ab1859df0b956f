"""Evaluation mode of one thread: inside `with Rest(model)` it computes without dropout and without gradients.

A module's `training` is one value for all threads, and another thread may train the same model meanwhile. So it is left
as it is, and what computes otherwise in training asks `in_training(self)` in place of `self.training`. Layers of other
packages that read `training` themselves, such as torch's dropout in a plugin, are in evaluation mode for all threads as
long as one of them computes with them at rest.
"""

import threading
from types import TracebackType
from typing import Final, final
from weakref import WeakKeyDictionary

import torch
from torch import nn

ASKS = "seqloom."
"""modules of classes in this package ask `in_training`"""
READS_TRAINING: Final = (
    *(nn.modules.dropout._DropoutNd, nn.modules.batchnorm._NormBase, nn.RNNBase, nn.RReLU, nn.MultiheadAttention),
    *(nn.Transformer, nn.TransformerEncoder, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer),
)
"""torch's layers whose `forward` reads `training`; its others are not touched"""


@final
class _Thread(threading.local):
    """A flag of each thread. It is set for each anew, since torch.compile guards attributes of the instance alone.

    It is no `contextvars.ContextVar`, which torch.compile cannot trace.
    """

    def __init__(self) -> None:
        self.rests = False


_thread = _Thread()
_lock = threading.Lock()
_held: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()
"""layers of other packages that were in training mode, and how many `Rest`s hold them in evaluation mode"""


def in_training(module: nn.Module) -> bool:
    """Whether the module computes as in training: in training mode, and in a thread that is not at rest."""
    return module.training and not _thread.rests


@final
class Rest:
    """A context in which this thread computes with some modules in evaluation mode and without gradients.

    It may be entered again, for each of many tokens, but by one thread at a time. Not `inference_mode`: what a module
    caches under it could not be trained through later.
    """

    def __init__(self, *modules: nn.Module) -> None:
        others = (inner for module in modules for inner in module.modules() if not _asks(inner))
        self._others = tuple(dict.fromkeys(others))
        self._held: list[nn.Module] = []
        self._before: list[tuple[bool, bool]] = []

    def __enter__(self) -> None:
        self._before.append((_thread.rests, torch.is_grad_enabled()))
        _thread.rests = True
        torch.set_grad_enabled(False)
        if self._others and len(self._before) == 1:
            self._hold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._held and len(self._before) == 1:
            self._release()
        _thread.rests, gradients = self._before.pop()
        torch.set_grad_enabled(gradients)

    def _hold(self) -> None:
        """Puts the layers of other packages into evaluation mode."""
        with _lock:
            self._held = [module for module in self._others if module.training or module in _held]
            for module in self._held:
                _held[module] = _held.get(module, 0) + 1
                module.training = False

    def _release(self) -> None:
        """Puts those that no other `Rest` holds back into training mode."""
        with _lock:
            for module in self._held:
                _held[module] -= 1
                if not _held[module]:
                    del _held[module]
                    module.training = True
            self._held = []


def _asks(module: nn.Module) -> bool:
    """Whether `training` need not be changed for the module: it asks `in_training`, or does not read it."""
    name = type(module).__module__
    if name.startswith(ASKS):
        return True
    return name.startswith("torch.nn.modules.") and not isinstance(module, READS_TRAINING)

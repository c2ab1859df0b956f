"""Memory: whether a model has room at all, and freed memory that stays with the process for the next step.

By default glibc maps each tensor above a threshold again and unmaps it when it is freed, and the page faults of a
training step cost a good part of it (docs/log.md has the figures). The setting holds for the process and changes no
result; SEQLOOM_KEEP_MEMORY=0 in the environment goes without.
"""

import ctypes
import os
import platform
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from seqloom.core.available_memory import available_memory, require_memory
from seqloom.core.layered import LayeredConfig
from seqloom.core.model_config import ModelConfig, weightless
from seqloom.ops.fused.cross_entropy import tokens_of_chunk

if TYPE_CHECKING:
    from seqloom.training.config import TrainConfig

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_MAX = -1, -2, -4  # names of mallopt(3)
_reported = False


def keep_freed_memory(say: Callable[[str], object] | None = None) -> bool:
    """Asks glibc to keep what is freed; True where that was possible (Linux with glibc), else nothing changes.

    Nothing is changed with SEQLOOM_KEEP_MEMORY=0. `say` gets one line, once per process.
    """
    global _reported  # noqa: PLW0603  # the setting is one of the process, and said once
    if os.environ.get("SEQLOOM_KEEP_MEMORY") == "0" or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    options = {_MMAP_MAX: 0, _TRIM_THRESHOLD: 2**31 - 1, _TOP_PAD: 64 << 20}
    accepted = [mallopt(name, value) == 1 for name, value in options.items()]
    if say is not None and all(accepted) and not _reported:
        _reported = True
        say("freed memory is kept for the next step, which is faster; SEQLOOM_KEEP_MEMORY=0 hands it back")
    return all(accepted)


def require_room(model: ModelConfig, device: torch.device, training: "TrainConfig | None" = None) -> None:
    """Raises ValueError, naming both sizes, where a model that is trained needs more memory than is available.

    Weights, gradients and the optimizer's two averages are counted, and with `training` a step's activations.
    """
    numbers, need = weights(model)
    need *= _width(training) // 4  # `weights` counts float32
    purpose = f"a model of {numbers:,} parameters, to be trained,"
    if training is not None:
        need += activations(model, training)
        purpose = f"training a model of {numbers:,} parameters on batches of {training.batch:,} windows"
    advice = "choose a smaller model.dim, model.depth, model.context, data.vocab or training.batch"
    if device.type == "cuda":
        reserved = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        require_memory(purpose, need, advice, available=torch.cuda.mem_get_info(device)[0] + reserved, where="the GPU")
    else:
        require_memory(purpose, need, advice, available=available_memory() + _allocated_bytes())


def activations(model: ModelConfig, training: "TrainConfig") -> int:
    """Bytes that a step takes at least next to the model: the ids of a batch, and what the backward of a piece needs.

    Of that the stream before each sublayer, the hidden layer of what follows a mixer, and twice the logits of a chunk
    of tokens, or of all where the step is compiled; what mixers keep of their own is not counted. Reversible layers
    hold as much at every depth. Processes that share rows hold their stretch of all micro-batches.
    """
    reach = model.reach if isinstance(model, LayeredConfig) else model.context
    rows = training.batch if training.sequence > 1 else -(-training.batch // training.accumulate)
    tokens = rows * -(-reach // (training.pieces * training.sequence))
    stream_bytes = 2 if training.precision == "bf16" else _width(training)
    ids = 8 * training.batch * (model.context + 1)
    if not isinstance(model, LayeredConfig):
        return ids
    layers = [model.ffn_of(layer) for layer in range(model.depth)]
    per_token = sum(model.dim if ffn.is_none else 2 * model.dim + ffn.held_numbers for ffn in layers)
    if model.sublayers == "reversible":  # both streams, and the sublayer that the backward computes again
        per_token = 2 * model.dim + model.dim + max(ffn.held_numbers for ffn in layers)
    return ids + tokens * stream_bytes * per_token + logits(model, training, tokens)


def logits(model: ModelConfig, training: "TrainConfig", tokens: int, device: str = "cpu") -> int:
    """Bytes of the logits of so many tokens and of their gradients, as far as they are in memory together."""
    together = tokens if training.compile else min(tokens, tokens_of_chunk(model.vocab, device))
    return together * 2 * _width(training) * model.vocab


def _width(training: "TrainConfig | None") -> int:
    """Bytes of a weight."""
    return 4 if training is None else training.dtype.itemsize


def _allocated_bytes() -> int:
    """Bytes that this process has allocated already and can use again, such as those of an earlier model."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def weights(model: ModelConfig) -> tuple[int, int]:
    """The parameters of a model, and the bytes that they take in training in float32, with the buffers.

    Of each parameter: its weight, its gradient and the optimizer's two averages.

    ValueError where it cannot be built.
    """
    built = weightless(model)
    omitted = model.omitted_modules(built) if isinstance(model, LayeredConfig) else ()
    modules = [built, *(module for _, module in omitted)]
    numbers = sum(tensor.numel() for module in modules for tensor in module.parameters())
    buffers = sum(tensor.numel() for module in modules for tensor in module.buffers())
    return numbers, 16 * numbers + 4 * buffers

"""A decoder and windows of random tokens, for tests of a single step."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from seqloom.core.extras import Extras
from seqloom.core.mixer import Mixer
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.training.config import TrainConfig
from seqloom.training.loop import Updates
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.optimizers import Optimizer
from seqloom.training.step import Learner

VOCAB, CONTEXT = 30, 8


def decoder(kind: str | dict[str, Any], seed: int = 7, **settings: Any) -> Decoder:
    """A small decoder in training mode whose weights depend on the seed alone."""
    torch.manual_seed(seed)
    mixer = {"kind": kind} if isinstance(kind, str) else kind
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.3}
    return Decoder(DecoderConfig(**{**sizes, "mixer": mixer, **settings})).train()


def with_loss(mixer: Mixer, loss: Callable[[], Tensor]) -> None:
    """Gives a mixer an auxiliary loss named `size`."""
    plain = mixer.forward
    mixer.forward_with_extras = lambda x, keep=None: (plain(x, keep), Extras({"size": loss()}))  # type: ignore[method-assign]


def descent(model: Decoder, lr: float) -> Optimizer:
    """Plain gradient descent, in which nothing hides a wrong gradient."""
    return Optimizer([torch.optim.SGD(model.parameters(), lr=lr)], model.named_parameters())


def updates(model: Decoder, optimizer: Optimizer, batches: Any, config: TrainConfig) -> Updates:
    """The steps of a training on the next token, whose windows are those of `batches`."""
    objective = NextToken(noise(), CONTEXT, config.batch)
    objective.batch = lambda seed, step, model: {"ids": batches.batch(step, config.batch)}  # type: ignore[method-assign]
    return Updates(Learner(model, objective), optimizer, config, seed=0)


def noise() -> Tokens:
    """Two documents of ids that follow no law."""
    ids = np.random.default_rng(0).integers(1, VOCAB, 400).astype("<u2")
    return Tokens(ids, np.array([0, 200]), np.array([900, 900]))


@cache
def windows(seed: int = 0) -> Windows:
    return Windows(noise(), CONTEXT, seed)

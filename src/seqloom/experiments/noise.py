"""Training steps on random tokens, to be timed: a step costs the same whatever it reads."""

from collections.abc import Callable
from itertools import count

import numpy as np

from seqloom.core.device import chosen
from seqloom.data.tokens import Tokens, id_type
from seqloom.data.windows import Windows
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.training.config import TrainConfig
from seqloom.training.loop import updates
from seqloom.training.memory import require_room
from seqloom.training.optimizers import optimizer


def noise(context: int, vocab: int, tokens: int = 2**16) -> Windows:
    """Windows over a text of `tokens` ids, all equally likely; the same in each process."""
    ids = np.random.default_rng(0).integers(vocab, size=tokens + context, dtype=id_type(vocab))
    return Windows(Tokens(ids, np.zeros(1, np.int64), np.full(1, len(ids))), context, seed=0)


def training_step(model: DecoderConfig, training: TrainConfig) -> Callable[[], object]:
    """A function that trains a model of its own by one batch of noise a call: batch, forward, backward, optimizer.

    ValueError where the model has no room or no such device is here.
    """
    device = chosen(training.device)
    require_room(model, device, training)
    built = Decoder(model).to(device, training.dtype).train()
    update = updates(built, optimizer(built, training), noise(model.context, model.vocab), training)
    numbers = count()
    return lambda: update(next(numbers))

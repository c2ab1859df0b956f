"""Training steps on random tokens, for timing: the time of a step does not depend on the text."""

from collections.abc import Callable
from itertools import count

import numpy as np

from seqloom.core.device import chosen
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Objective
from seqloom.core.recording import takes_graphs
from seqloom.data.config import DataConfig
from seqloom.data.episodes import Episodes
from seqloom.data.tokens import Tokens, id_type
from seqloom.models.decision_config import DecisionConfig
from seqloom.training.captured import chosen_steps
from seqloom.training.config import TrainConfig
from seqloom.training.loop import Updates
from seqloom.training.memory import require_room
from seqloom.training.objectives.actions import Actions
from seqloom.training.optimizers import optimizer
from seqloom.training.precision import resolve_precision
from seqloom.training.step import Learner


def labelled_noise(context: int, vocab: int, texts: int) -> Tokens:
    """64 examples of `texts` random texts each, which fill the context and have one label; equal in every process."""
    length = (context - 1) // texts
    ids = np.random.default_rng(0).integers(1, max(vocab, 2), size=(64 * texts, length), dtype=id_type(vocab))
    ids[:, -1] = 0  # each text ends with `<eos>`
    count = len(ids)
    starts = np.arange(count, dtype=np.int64) * length
    return Tokens(ids.reshape(-1), starts, np.full(count, length), np.zeros(count // texts, np.int64), texts)


def noise(context: int, vocab: int, tokens: int = 2**16) -> Tokens:
    """A text of `tokens` uniform random ids and one window more; the same in every process."""
    ids = np.random.default_rng(0).integers(vocab, size=tokens + context, dtype=id_type(vocab))
    return Tokens(ids, np.zeros(1, np.int64), np.full(1, len(ids)))


def episodes_of_noise(model: DecisionConfig) -> Episodes:
    """Episodes of random states and actions that fill the context; the same in every process."""
    draws, environment = np.random.default_rng(0), model.environment
    steps = min(model.context, model.vocab)
    count = 64 * steps
    actions = draws.integers(environment.actions, size=count)
    if environment.continuous:
        actions = draws.uniform(environment.low, environment.high, (count, environment.actions)).astype(np.float32)
    states = draws.standard_normal((count, environment.states)).astype(np.float32)
    return Episodes(states, actions, np.ones(count), np.arange(64, dtype=np.int64) * steps, environment)


def training_step(model: ModelConfig, training: TrainConfig) -> Callable[[], object]:
    """A function that does one training step on noise, as a training runs it: batch, forward, backward, optimizer.

    ValueError as `noise_updates`.
    """
    steps, numbers = chosen_steps(noise_updates(model, training), None, lambda line: None), count()
    return lambda: steps(next(numbers))


def noise_updates(model: ModelConfig, training: TrainConfig) -> Updates:
    """The steps of a training on noise, which `training.captured.chosen_steps` captures where a run is captured.

    ValueError where the model does not fit into memory or the device does not exist.
    """
    if training.objective.acts:
        raise ValueError("a step lasts as long as the model plays, which cannot be timed before: train without --plan")
    device = chosen(training.device)
    require_room(model, device, training)
    training = resolve_precision(training, device, None)
    initialized = model.build().to(device, training.dtype).train()
    if training.objective.paired:  # a source and a target that fill the context each
        text = labelled_noise(2 * model.context + 1, model.vocab, 2)
    elif training.objective.labelled:
        text = labelled_noise(model.context, model.vocab, getattr(model, "texts", 1))
    else:
        text = noise(model.context, model.vocab)
    objective: Objective
    if isinstance(model, DecisionConfig):
        episodes = episodes_of_noise(model)
        objective = Actions(model, episodes, episodes, training.batch)
    else:
        objective = training.objective.build(model, DataConfig(source="noise"), training.batch, text)
    memory = optimizer(initialized, training)
    if takes_graphs(device):
        memory.hold_rates(device)
    return Updates(Learner(initialized, objective), memory, training, seed=0)

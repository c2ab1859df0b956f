"""Training steps on random tokens, for timing: the time of a step does not depend on the text."""

from collections.abc import Callable
from itertools import count

from seqloom.core.device import choose_device
from seqloom.core.model_config import ModelConfig
from seqloom.core.recording import takes_graphs
from seqloom.training.captured import chosen_steps
from seqloom.training.config import TrainConfig
from seqloom.training.loop import Updates
from seqloom.training.memory import require_room
from seqloom.training.optimizers import optimizer
from seqloom.training.precision import resolve_precision
from seqloom.training.preparation import new_learner


def training_step(model: ModelConfig, training: TrainConfig) -> Callable[[], object]:
    """A function that does one training step on noise, as a training runs it: batch, forward, backward, optimizer.

    ValueError as `random_updates`.
    """
    steps, numbers = chosen_steps(random_updates(model, training), None, lambda line: None), count()
    return lambda: steps(next(numbers))


def random_updates(model: ModelConfig, training: TrainConfig) -> Updates:
    """The steps of a training on noise, which `training.captured.chosen_steps` captures where a run is captured.

    ValueError where the model does not fit into memory or the device does not exist.
    """
    objective = training.objective.build_on_random(model, training.batch)
    device = choose_device(training.device)
    require_room(model, device, training)
    training = resolve_precision(training, device, None)
    initialized = model.build().to(device, training.dtype).train()
    memory = optimizer(initialized, training)
    if takes_graphs(device):
        memory.hold_rates(device)
    return Updates(new_learner(initialized, objective, training), memory, training, seed=0)

"""The steps of a model that learns by counting: `Model.fit` in place of a loss, its gradient and an update.

    statistics ← statistics + those of the batch          at every step: `fit`
    model ← the model of the statistics                   after the last step of a pass over the text, or of the run

A pass reads the text in its order (`Windows.pass_batch`), so that what is counted crosses the borders of windows. A run
of fewer batches than a pass ends with what it has read. Rows and checkpoints are those of any training. What is
collected lies in buffers of the model, so that a run that stopped within a pass continues bit for bit. The training
ends where a model says that no further pass changes it.
"""

import math
import time
from typing import final

import torch
from typing_extensions import override

from seqloom.core.objective import Carried
from seqloom.training.config import TrainConfig
from seqloom.training.group import Group
from seqloom.training.loop import Steps, Update, on, seed_step
from seqloom.training.losses import NotFinite
from seqloom.training.step import Learner


@final
class Counting(Steps):
    """The steps of a training without gradients. ValueError in more than one process."""

    def __init__(self, learner: Learner, config: TrainConfig, seed: int, group: Group) -> None:
        if group.size > 1:
            raise ValueError(f"a model of kind {learner.model.config.kind} counts in one process: start one alone")
        self.rate = config.lr
        self._learner = learner
        self._config = config
        self._seed = seed

    @override
    def carry(self, tensors: Carried) -> None:
        """Nothing is carried: what the model knows lies in its buffers."""
        assert not tensors

    @override
    def __call__(self, number: int) -> Update:
        """As `Steps`. Raises NotFinite for a loss that is not finite."""
        began = time.perf_counter()
        model, objective = self._learner.model, self._learner.objective
        rows = objective.batch(self._seed, number, model)
        batch = on(model.device, rows)
        seed_step(self._config.seed, number, model.device)
        compute_began = time.perf_counter()
        with torch.no_grad():
            scalar = model.fit(batch)
            loss = None if scalar is None else float(scalar)
            last = (number + 1) % objective.pass_steps(self._seed) == 0 or number + 1 == self._config.batches
            done = bool(model.end_pass()) if last else False
        if loss is not None and not math.isfinite(loss):
            raise NotFinite(f"stopped at step {number + 1}: the training loss is {loss}")
        ended = time.perf_counter()
        tokens = objective.count_tokens(rows)
        return Update(number + 1, loss, 0.0, ended - began, ended - compute_began, tokens, ended=done)

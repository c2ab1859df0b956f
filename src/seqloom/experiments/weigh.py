"""A trained model's numbers: how good it is, how large, how dear.

`quality` is read from the run. `prices` are of the equation. `clocks` are measured now, all models taking turns, so
that what else the machine does falls on all alike; what a run's rows say of seconds is not compared.
"""

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, final

import torch

from seqloom.analysis.measure import peak_bytes, race
from seqloom.core.model import Model
from seqloom.core.progress import progress
from seqloom.core.state import ModelState, nbytes
from seqloom.experiments.noise import training_step
from seqloom.generation.draws import tokens
from seqloom.ops.backends import use
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig

Row = dict[str, Any]
ROUNDS = 7
"""turns of each model in a race"""


@final
@dataclass(frozen=True)
class Clocks:
    """What one model's training step and one of its generated tokens take."""

    step: float
    """seconds of a training step, median"""
    token: float | None
    """seconds of a token, median over texts written from the first token until the window is full; None without any"""
    peak: int
    """most bytes that a training step holds beyond the model and the optimizer's memory; 0 where not measured"""

    def row(self) -> Row:
        """In the units of the table."""
        return {
            "ms a step": 1e3 * self.step,
            "peak MB a step": self.peak / 1e6,
            "ms a generated token": None if self.token is None else 1e3 * self.token,
        }


def quality(run: Run) -> Row:
    """The held-out cost at the end, and the median training cost of the last tenth of the batches."""
    rows = read(run.metrics)
    costs = [row["cost"] for row in rows if "cost" in row]
    held = [row for row in rows if "held_out" in row][-1]
    return {
        "held-out cost": held["held_out"],
        "bits a byte": held.get("bits_per_byte"),
        "masked right": held.get("accuracy"),
        "training cost": statistics.median(costs[-last_tenth(len(costs)) :]),
    }


def last_tenth(batches: int) -> int:
    """The batches at the end of a run over which its training cost is a median."""
    return max(1, batches // 10)


def prices(model: Model) -> Row:
    """Trainable numbers; operations of the equation, and bytes kept, for a text that fills the window."""
    context = model.config.context
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "operations a token": model.cost(context).total // context,
        "state bytes": nbytes(state_after(model, context)) if model.traits.streams else None,
    }


def clocks(models: Mapping[str, tuple[Model, RunConfig]]) -> dict[str, Clocks]:
    """Races training steps of models like these, then tokens that these generate; peak memory of one step each."""
    with progress("timing, all by turns", 3, "measurements") as advance:
        steps = {name: _stepping(config) for name, (_, config) in models.items()}
        times = {name: timing.median for name, timing in race(steps, ROUNDS, warm=2).items()}
        advance(note="steps")
        peaks = {name: peak_bytes(step) for name, step in steps.items()}
        advance(note="memory")
        del steps
        writing = {name: _writing(model, config) for name, (model, config) in models.items() if model.traits.generates}
        tokens = {name: timing.median for name, timing in (race(writing, ROUNDS) if writing else {}).items()}
        advance(note="tokens")
    return {
        name: Clocks(times[name], tokens[name] / model.config.context if name in tokens else None, peaks[name])
        for name, (model, _) in models.items()
    }


def state_after(model: Model, tokens: int) -> ModelState:
    """What one row keeps after `tokens` tokens, trimmed as it would be saved."""
    device = model.device
    with torch.no_grad():
        read = model.extend(torch.zeros(1, tokens, dtype=torch.long, device=device), model.start(1))
        return model.trim(read[1])


def _stepping(config: RunConfig) -> Any:
    """A function that trains a model of the same sizes by one batch."""
    train = training_step(config.model, config.training)

    def step() -> None:
        with use(**config.backends):
            train()

    return step


def _writing(model: Model, config: RunConfig) -> Any:
    first = torch.zeros(1, 1, dtype=torch.long)

    def write() -> None:
        with use(**config.backends):
            _exhaust(tokens(model, first, max_tokens=model.config.context))

    return write


def _exhaust(drawn: Iterator[object]) -> None:
    for _ in drawn:
        pass

"""A race: all contenders take turns in one process, and their training steps and generated tokens are timed.

Other load on the machine then affects all contenders alike; seconds in the rows of different runs are not comparable.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from typing_extensions import override

from seqloom.analysis.measure import Timing, peak_bytes, race
from seqloom.core.device import choose_device
from seqloom.core.model import Model
from seqloom.core.progress import Say, Show
from seqloom.face import load
from seqloom.generation.draws import tokens
from seqloom.ops.backends import use
from seqloom.runs.code import Codes, merge_codes
from seqloom.studies.random_batches import training_step
from seqloom.studies.study import Cell, Row
from seqloom.training.config import RunConfig

ROUNDS = 7
"""turns of every model"""
WARM = 2
"""training steps before the first turn"""


@final
class Times(Row):
    """The times of one contender's training step and token."""

    contender: str
    step: float | None
    """seconds of a training step, the median; None for a model of counts, which has none"""
    step_quartiles: tuple[float, float] | None = None
    """seconds of a training step that a quarter of the turns did not exceed, and three quarters"""
    token: float | None = None
    """seconds per generated token, the median over texts from the first token until the window is full, if any"""
    peak: int | None = None
    """the most bytes that a training step holds besides the model and the optimizer's state"""


@final
@dataclass(frozen=True)
class Race(Cell):
    """Times training steps on noise, and texts of trained models if `runs` has their folders."""

    alone: ClassVar = True
    schema: ClassVar = Times
    configs: dict[str, RunConfig]
    """settings by contender"""
    machine: str
    """`analysis.origin.machine`; times of another machine are not reused"""
    runs: dict[str, Path] | None = None
    """folders of trained models by contender; None to time only training steps"""
    rounds: int = field(default_factory=lambda: ROUNDS)

    @property
    def settings(self) -> dict[str, Any]:
        """Sizes and backends of all contenders, and the machine."""
        sizes = {name: _sizes(config) for name, config in self.configs.items()}
        return {"contenders": sizes, "machine": self.machine, "rounds": self.rounds, "texts": self.runs is not None}

    @property
    @override
    def code(self) -> Codes:
        return merge_codes(self.configs.values())

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """A row for each contender."""
        texts = self.runs is not None
        with torch.random.fork_rng(devices=[]), show("timing by turns", 3 if texts else 1, "measurements") as advance:
            steps = {name: _training_step(config) for name, config in self.configs.items() if not config.model.fits}
            times: dict[str, Timing] = race(steps, self.rounds, warm=WARM) if steps else {}
            advance(note="steps")
            peaks: dict[str, int] = {}
            token_seconds: dict[str, float] = {}
            if self.runs is not None:
                peaks = {name: peak_bytes(step) for name, step in steps.items()}
                advance(note="memory")
                del steps
                token_seconds = _token_seconds(self.configs, self.runs, self.rounds)
                advance(note="tokens")
        return [
            Times(
                contender=name,
                step=times[name].median if name in times else None,
                step_quartiles=times[name].quartiles if name in times else None,
                token=token_seconds.get(name),
                peak=peaks.get(name),
            )
            for name in self.configs
        ]

    def steps(self) -> list[tuple[RunConfig, float]]:
        """The training steps of all rounds, by model."""
        return [(config, self.rounds + WARM) for config in self.configs.values() if not config.model.fits]


def _sizes(config: RunConfig) -> dict[str, Any]:
    """The settings on which the time of a training step depends."""
    settings = config.model_dump(mode="json")
    training = {name: settings["training"][name] for name in ("batch", "accumulate", "precision", "compile", "device")}
    return {"model": settings["model"], "training": training, "backends": settings["backends"]}


def _token_seconds(configs: Mapping[str, RunConfig], runs: Mapping[str, Path], rounds: int) -> dict[str, float]:
    """Seconds per generated token, by model that generates text."""
    models = {name: load(runs[name]).to(choose_device(config.training.device)) for name, config in configs.items()}
    writers = {name: _text_writer(model, configs[name]) for name, model in models.items() if model.traits.generates}
    times: dict[str, Timing] = race(writers, rounds) if writers else {}
    return {name: timing.median / models[name].config.context for name, timing in times.items()}


def _training_step(config: RunConfig) -> Callable[[], None]:
    """A function that trains a model of these sizes by one batch."""
    train = training_step(config.model, config.training)

    def step() -> None:
        with use(**config.backends):
            train()

    return step


def _text_writer(model: Model, config: RunConfig) -> Callable[[], None]:
    """A function that generates a text that fills the window."""
    first = torch.zeros(1, 1, dtype=torch.long)

    def write() -> None:
        with use(**config.backends):
            _exhaust(tokens(model, first, max_tokens=model.config.context, mode="slide"))

    return write


def _exhaust(drawn: Iterator[object]) -> None:
    for _ in drawn:
        pass

"""Times mixers in one race, after checking them against their references; results are ratios to one of them.

    cell = bench(["she", "he"], against="attention:heads=32", dim=128, context=128, batch=64)
    rows = run_bench(cell, Path("runs/bench"))

The study has one cell, a race: its contenders take turns in one process that has the machine to itself
(`analysis.measure.race`). A ratio is the median over the rounds of a mixer's time divided by the peer's in the same
round. A mixer without a causal form is timed in its bidirectional form. The functions that are timed are in the module
`subjects`, the check before is in `agree`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from typing_extensions import override

from seqloom.analysis.measure import Timing, race
from seqloom.analysis.origin import machine
from seqloom.analysis.others import is_loaded, watch
from seqloom.core.config import suggestion
from seqloom.core.device import choose_device
from seqloom.core.mixer import Mixer
from seqloom.core.progress import Say, Show
from seqloom.mixers import find
from seqloom.ops import backends
from seqloom.runs.code import Codes, merge_codes
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.check_outputs import require_agreement
from seqloom.studies.random_batches import training_step
from seqloom.studies.runner import run
from seqloom.studies.study import Cell, Row, Study
from seqloom.studies.timed_functions import TOKENS, WHAT, Run, Tokens, forward, require_sizes, sublayer
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve

SIZES = {"dim": 128, "context": 128}
"""sizes where none are given; for `step` they are those of the preset"""
TOKENS_READ = 8192
"""tokens of a batch where none is given: 64 windows of 128 tokens, or one of 8,192"""
WARM = 2
"""untimed turns of each mixer before the first round"""


@final
class Timed(Row):
    """One mixer of a race. Times are in ms, as median and lower and upper quartile."""

    mixer: str
    what: str
    dim: int
    context: int
    batch: int
    ms_median: float
    ms_quartiles: tuple[float, float]
    ratio_median: float
    """median over the rounds of its time divided by that of `against`"""
    ratio_quartiles: tuple[float, float]
    backends: dict[str, list[str]]
    """the backends that ran, by op"""
    operations_a_token: int
    """operations per token by the price of the mixer (`Mixer.cost`), or of the model for a step"""
    repeats: int
    threads: int
    loaded: bool | None
    """whether other processes used the cores during the race; None where the system does not report it"""
    against: str


@final
@dataclass(frozen=True)
class Bench(Cell):
    """A race of mixers. The cell fails before anything is timed where a mixer differs from its reference."""

    alone: ClassVar = True
    schema: ClassVar = Timed
    configs: dict[str, RunConfig]
    """settings by the name of the mixer"""
    against: str
    what: str
    repeats: int
    threads: int
    machine: str

    @property
    def settings(self) -> dict[str, Any]:
        """Models, batch and backends of all mixers, what is timed, and on which machine."""
        models = {}
        for name, config in self.configs.items():
            settings = config.model_dump(mode="json")
            models[name] = {
                "model": settings["model"],
                "training": settings["training"],
                "backends": settings["backends"],
            }
        return {
            "mixers": models,
            "against": self.against,
            "what": self.what,
            "repeats": self.repeats,
            "threads": self.threads,
            "machine": self.machine,
        }

    @property
    @override
    def code(self) -> Codes:
        return merge_codes(self.configs.values())

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Timed]:
        """A row for each mixer, the quickest first."""
        with torch.random.fork_rng(devices=[]):
            runs = {}
            backends_used = {}
            with show("checking", len(self.configs), "mixers") as advance:
                for name, config in self.configs.items():
                    runs[name], backends_used[name] = _checked_function(name, config, self.what)
                    advance()
            end_watch = watch()
            with show("timing", self.repeats * len(runs), "runs") as advance:
                times = race(runs, self.repeats, warm=WARM, after=advance)
            busy = is_loaded(end_watch())
        rows = [self._row(name, times, backends_used[name], busy) for name in self.configs]
        return sorted(rows, key=lambda row: row.ms_median)

    def text(self, rows: Sequence[Timed]) -> str:
        """The quickest mixer and its time."""
        return f"{rows[0].mixer} is the quickest, {rows[0].ms_median:.4g} ms"

    def _row(
        self, name: str, times: Mapping[str, Timing], backends_used: dict[str, list[str]], busy: bool | None
    ) -> Timed:
        """The row of a mixer: its times, and their ratios to those of `against`."""
        config, time = self.configs[name], times[name]
        ratio = time.over(times[self.against])
        ms = 1e3 / (TOKENS if self.what == "token" else 1)
        low, high = time.quartiles
        return Timed(
            mixer=name,
            what=self.what,
            dim=config.layered_model.dim,
            context=config.model.context,
            batch=config.training.batch,
            ms_median=ms * time.median,
            ms_quartiles=(ms * low, ms * high),
            ratio_median=ratio.median,
            ratio_quartiles=ratio.quartiles,
            backends=backends_used,
            operations_a_token=_operations(config, self.what),
            repeats=self.repeats,
            threads=self.threads,
            loaded=busy,
            against=self.against,
        )


def bench(
    mixers: Sequence[str],
    against: str,
    *,
    dim: int | None = None,
    context: int | None = None,
    batch: int | None = None,
    what: str = "sublayer",
    repeats: int = 7,
    preset: str | None = None,
) -> Bench:
    """The race of the mixers (`KIND` or `KIND:NAME=VALUE,…`) and of the peer `against`.

    ValueError for names, sizes and settings that do not fit.
    """
    if what not in WHAT:
        raise ValueError(f"--what: {what!r} cannot be timed; {suggestion(what, WHAT)}")
    if repeats < 1:
        raise ValueError(f"--repeats must be at least 1, not {repeats}")
    if preset is not None and what != "step":
        raise ValueError(f"a preset says nothing about a {what}: give --preset with --what step alone")
    sizes = {"dim": dim, "context": context, "batch": batch}
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"--{name} must be at least 1, not {size}")
    names = dict.fromkeys([*mixers, against])
    configs = {name: _config(name, preset or "paper/small", what, sizes) for name in names}
    cell = Bench(what, configs, against, what, repeats, torch.get_num_threads(), machine())
    return replace(cell, name=f"{what}-{cell.key[:16]}")


def run_bench(cell: Bench, out: Path, command: str = "") -> list[Timed]:
    """Runs the benchmark, or reads its rows if OUT has them. ValueError where it failed, and as in `runner.run`."""
    results = run(Study("bench", {}, lambda _: iter([[cell]])), out, command=command)
    if cell.name in results.failed:
        raise ValueError(results.failed[cell.name])
    return results.of(Timed)


def _config(name: str, preset: str, what: str, sizes: Mapping[str, int | None]) -> RunConfig:
    """The settings of a mixer in the race. ValueError where it does not fit the sizes."""
    if what != "step":
        sizes = _with_defaults(sizes)
    settings = {"dim": "model.dim", "context": "model.context", "batch": "training.batch"}
    changes = [f"{settings[name]}={size}" for name, size in sizes.items() if size is not None]
    candidate = parse_candidate(name)
    kind = find(candidate.kind)
    if what != "step" and kind is not None and kind.traits.causal == "never":
        preset = "encoder/small"
    config = resolve(preset, ["data.source=stories", *candidate.changes, *changes])
    with torch.device("meta"):
        mixer = _mixer(config)
    require_sizes(name, mixer, config.training.batch, config.model.context, what)
    return config


def _with_defaults(sizes: Mapping[str, int | None]) -> dict[str, int | None]:
    """The sizes of a race of sublayers, with the default of each size that is not given."""
    known_sizes = SIZES | {name: size for name, size in sizes.items() if size is not None}
    return {"batch": max(1, TOKENS_READ // known_sizes["context"]), **known_sizes}


def _mixer(config: RunConfig) -> Mixer:
    """The mixer of the first layer, in its causal form, or in its bidirectional form if it has no causal one."""
    sizes = config.layered_model
    settings = sizes.mixers[0]
    return settings.build(sizes.dim, sizes.context, causal=settings.traits.causal != "never")


def _checked_function(name: str, config: RunConfig, what: str) -> tuple[Run, dict[str, list[str]]]:
    """The function to be timed, and the backends that it runs. ValueError where the mixer is wrong on them."""
    sizes, device = config.layered_model, choose_device(config.training.device)
    mixer = _mixer(config).to(device)
    tokens = sizes.context + (what == "token")
    x = torch.randn(config.training.batch, tokens, sizes.dim, device=device)
    subjects: dict[str, Any] = {"sublayer": sublayer, "forward": forward, "token": Tokens}
    timed_function: Run = training_step(sizes, config.training) if what == "step" else subjects[what](mixer, x)

    def with_backends() -> None:
        with backends.use(**config.backends):
            timed_function()

    with backends.record_backends() as backends_used:
        with_backends()
    require_agreement(name, mixer, x, backends_used, what)
    return with_backends, backends_used


def _operations(config: RunConfig, what: str) -> int:
    """Operations per token by the price of the equation."""
    context = config.model.context
    with torch.device("meta"):
        model = config.model.build()
    mixer = model.mixers[0]
    if what == "step":
        return model.cost(context).total // context
    if what == "token":
        return mixer.cost(context + 1, "token").total
    return mixer.cost(context).total // context

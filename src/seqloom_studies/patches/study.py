"""Models that classify pictures by their patches: right labels, and the price of a picture.

    accuracy = share of held-out pictures whose likeliest label is right;   chance = that of always saying the commonest

    study = PatchesStudy([parse_candidate("mlp_mixer"), parse_candidate("fnet")], ["images:digits"])
    rows = run(study.study, Path("runs/patches")).of(Classified)

All models read the same pictures in the same order, and differ in the mixer alone.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

from seqloom.core.model_config import weightless
from seqloom.core.seeds import require_count
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, folder_name, require_distinct
from seqloom.training.preparation import identity, prepare_run
from seqloom.training.settings import resolve

PRESET = "pictures/patches"


@final
class Classified(Row):
    """The right labels of one model; None where its training `failed`."""

    mixer: str
    source: str
    seed: int
    lr: float
    batches: int
    batch: int
    dim: int
    depth: int
    patches: int
    """of a picture"""
    parameters: int
    multiplications: int
    """of the layers, for a picture"""
    held_out: float | None
    """loss per picture"""
    accuracy: float | None
    chance: float | None
    pictures: int | None
    """held-out pictures"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class PatchesCell(RunCell):
    """A model trained on patches."""

    schema: ClassVar = Classified
    mixer: str

    def read(self, run: Run, failed: str | None) -> list[Classified]:
        """One row."""
        model = self.config.layered_model
        shared: dict[str, Any] = {
            **self.describe_training(),
            "mixer": self.mixer,
            "patches": model.context,
            "multiplications": weightless(model).inner_cost(model.context).mul,
        }
        scores = ("held_out", "accuracy", "chance", "pictures")
        if failed is not None:
            return [Classified(**shared, **dict.fromkeys(scores), failed=failed)]
        score = [row for row in read(run.metrics) if "held_out" in row][-1]
        return [Classified(**shared, **{name: score[name] for name in scores})]

    def text(self, rows: Sequence[Classified]) -> str:
        """The share of right labels, and chance."""
        (row,) = rows
        return row.failed or f"{row.accuracy:.1%} right, {row.chance:.1%} by chance"


@final
@dataclass(frozen=True)
class PatchesStudy:
    """The mixers and the pictures. ValueError for repeated values and settings that do not fit."""

    mixers: Sequence[Candidate]
    sources: Sequence[str] = ("images:digits",)
    batches: int = 1000
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_distinct(
            "patches",
            {
                "mixers": [mixer.name for mixer in self.mixers],
                "pictures": [folder_name(source) for source in self.sources],
            },
        )
        require_count(self.seeds)

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other mixers and pictures may be added."""
        return Study("patches", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        yield [
            self._cell(mixer, source, seed)
            for source in self.sources
            for seed in range(self.seeds)
            for mixer in self.mixers
        ]

    def _cell(self, mixer: Candidate, source: str, seed: int) -> PatchesCell:
        varied = [f"training.batches={self.batches}", f"training.seed={seed}"]
        config = prepare_run(resolve(PRESET, [*varied, *self.changes, *mixer.changes], source)).config
        return PatchesCell(
            name=f"{folder_name(source)}/{mixer.name}/seed-{seed}",
            config=config,
            identity=identity(config, None),
            allow_drift=True,
            mixer=mixer.name,
        )

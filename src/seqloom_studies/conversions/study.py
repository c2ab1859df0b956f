"""Distillations of one teacher: by the mixer, the layers that keep attention, the number of tokens and the seed.

    study = Conversions(Path("runs/teacher"), "books/", ("gated_delta",), ("25%",), (1_000_000,))
    rows = run(study.study, Path("runs/conversions")).of(Conversion)

A cell is a `seqloom.distill` in its folder, with a row for each model of its table. State and operations are counted
from settings: of one text in bf16 after 32,768 tokens, and of the token after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from typing_extensions import override

from seqloom.analysis.swap_plan import plan_model
from seqloom.core.progress import Say, Show
from seqloom.core.table import format_cell
from seqloom.models.config import TransformerConfig
from seqloom.runs import model as stored
from seqloom.runs.code import Codes, codes
from seqloom.runs.layout import find_run
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, Stopped, Study
from seqloom.training.distillation import Distillation
from seqloom.training.distilling import distill

LENGTH = 32_768
"""tokens after which state and operations are counted"""


@final
class Conversion(Row):
    """A model of a distillation and its loss on text that is never trained on."""

    to: str
    keep: str
    layers: str
    """that were replaced"""
    tokens: int
    seed: int
    model: str
    loss: float
    """nats a token"""
    recovered: float | None
    """the share of what removing the layers costs that this model does not lose"""
    state: int
    """bytes of the student's state"""
    state_before: int
    """bytes of the teacher's"""
    operations: int
    operations_before: int


@final
@dataclass(frozen=True, kw_only=True)
class ConversionCell(Cell):
    """One distillation."""

    schema: ClassVar = Conversion
    teacher: Path
    data: str
    to: str
    keep: str
    tokens: int
    seed: int
    batch: int
    context: int | None
    baselines: bool

    @property
    def settings(self) -> dict[str, Any]:
        """The teacher's identity and all that the distillation depends on, but not where things lie."""
        settings = {name: getattr(self, name) for name in ("data", "to", "keep", "tokens", "seed", "batch", "context")}
        return {**settings, "teacher": find_run(self.teacher).identity, "baselines": self.baselines}

    @property
    @override
    def code(self) -> Codes:
        return codes(stored.config_of(find_run(self.teacher)))

    @property
    @override
    def about(self) -> str:
        return self.to

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Conversion]:
        """The distillation to its end; a row for each model of its table."""
        asked = Distillation(
            teacher=self.teacher,
            out=folder,
            to=self.to,
            data=self.data,
            keep=self.keep,
            tokens=self.tokens,
            batch=self.batch,
            context=self.context,
            seed=self.seed,
        )
        found = distill(asked, baselines=self.baselines, say=say, show=show)
        if found.outcome.signal is not None:
            raise Stopped(self.name, 128 + int(found.outcome.signal))
        student = stored.config_of(find_run(folder))
        assert isinstance(student, TransformerConfig)
        before, after = (plan_model("", config, (LENGTH,)) for config in (asked.config, student))
        return [
            Conversion(
                to=self.to,
                keep=self.keep,
                layers=",".join(map(str, found.layers)),
                tokens=self.tokens,
                seed=self.seed,
                model=row.model,
                loss=row.loss,
                recovered=row.recovered,
                state=after.state[0],
                state_before=before.state[0],
                operations=after.operations[0],
                operations_before=before.operations[0],
            )
            for row in found.rows
        ]

    def text(self, rows: Sequence[Conversion]) -> str:
        """The loss of the student."""
        (student,) = (row for row in rows if row.model.endswith("distilled"))
        return f"loss {format_cell(student.loss)}"


@final
@dataclass(frozen=True)
class Conversions:
    """Every mixer with each choice of layers, number of tokens and seed.

    ValueError for repeated values; FileNotFoundError for a missing teacher.
    """

    teacher: Path
    data: str
    to: Sequence[str]
    keep: Sequence[str]
    tokens: Sequence[int]
    seeds: int = 1
    batch: int = 16
    context: int | None = None
    baselines: bool = False

    def __post_init__(self) -> None:
        find_run(self.teacher)
        for name in ("to", "keep", "tokens"):
            values = getattr(self, name)
            if not values or len(set(values)) < len(values):
                raise ValueError(f"--{name} are one or more values that differ, not {', '.join(map(str, values))!r}")

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which others may be added."""
        return Study("conversions", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        yield [
            ConversionCell(
                name="-".join([to.replace(":", "-"), keep.replace("%", "").replace(":", "-"), f"{tokens}", f"{seed}"]),
                teacher=self.teacher,
                data=self.data,
                to=to,
                keep=keep,
                tokens=tokens,
                seed=seed,
                batch=self.batch,
                context=self.context,
                baselines=self.baselines,
            )
            for tokens in self.tokens
            for to in self.to
            for keep in self.keep
            for seed in range(self.seeds)
        ]

"""The cells of the study: one training for each mixer and width, and its row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.studies.candidates import parse_candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Row, RunCell, Study
from seqloom.training.preparation import identity, with_text
from seqloom.training.settings import resolve


@final
class WidthRow(Row):
    """A model of one width; `loss` is None where the training failed."""

    mixer: str
    width: int
    loss: float | None
    """on held-out text, in nats per token"""
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class WidthCell(RunCell):
    """A training. Its folder, the resumption and the saved row are those of every cell."""

    schema: ClassVar = WidthRow
    mixer: str
    width: int

    def read(self, run: Run, failed: str | None) -> list[WidthRow]:
        """The row of the finished run."""
        scores = [row["held_out"] for row in read(run.metrics) if "held_out" in row]
        loss = scores[-1] if failed is None else None
        return [WidthRow(mixer=self.mixer, width=self.width, loss=loss, failed=failed)]


@final
@dataclass(frozen=True)
class WidthStudy:
    """The mixers, the widths, and what all models share."""

    mixers: Sequence[str]
    widths: Sequence[int]
    source: str
    changes: Sequence[str] = ()

    @property
    def study(self) -> Study:
        """The study, whose folder more mixers and widths may be added to."""
        return Study("width", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[WidthCell]]:
        """One stage: no cell needs the rows of another."""
        yield [self.cell(mixer, width) for mixer in self.mixers for width in self.widths]

    def cell(self, mixer: str, width: int) -> WidthCell:
        """The training of one mixer at one width."""
        model = parse_candidate(mixer)
        shared = [f"model.dim={width}", f"model.ffn={4 * width}", *self.changes]
        config, corpus = with_text(resolve("tiny", [*shared, *model.changes], self.source))
        return WidthCell(
            name=f"{model.name}/width-{width}",
            config=config,
            identity=identity(config, corpus),
            mixer=model.name,
            width=width,
        )

"""One run of the comparison: a training, and the scores of the trained model on its test text."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

import torch

from seqloom.analysis.match import quantity
from seqloom.core.device import choose_device
from seqloom.core.model import Model
from seqloom.data.authors import PARTS
from seqloom.data.prepare import Corpus
from seqloom.data.windows import Windows
from seqloom.ops.backends import use
from seqloom.runs import checkpoint
from seqloom.runs.layout import Run
from seqloom.runs.metrics import read
from seqloom.runs.model import load
from seqloom.studies.candidate_cell import last_tenth
from seqloom.studies.study import RunCell
from seqloom.training.config import RunConfig
from seqloom.training.preparation import with_text
from seqloom_studies.board.lineup import MIDDLE
from seqloom_studies.board.measure import Spans, state_bytes
from seqloom_studies.board.rows import BoardRow

LONG = 2048
"""tokens of the long windows, more than the context in training"""
SCORES = ("loss", "bits_per_byte", "by_position", "by_author", "bits_per_byte_long", "by_position_long")
"""the fields of a row that are about the test text"""


@final
@dataclass(frozen=True, kw_only=True)
class BoardCell(RunCell):
    """A model trained at a learning rate from a seed."""

    schema: ClassVar = BoardRow
    contender: str
    purpose: Literal["form", "rate", "control", "result", "slope"]
    text_name: str
    board: str
    """digest of what all runs of the study share"""

    @property
    def digest(self) -> str:
        """The digest under which the row is stored."""
        return self.key

    def read(self, run: Run, failed: str | None) -> list[BoardRow]:
        """One row: losses on validation and test texts, sizes, bytes of the state, backends, seconds."""
        config, training = self.config.layered_model, self.config.training
        rows = read(run.metrics)
        losses = [row["loss"] for row in rows if "loss" in row]
        _, corpus = with_text(self.config)
        assert corpus.division is not None
        newest = checkpoint.peek(run.checkpoints)
        surroundings = newest.meta["surroundings"] if newest is not None else {}
        windows = Windows(corpus.train, config.context, 0, disjoint=self.config.data.disjoint)
        parts = (corpus.train, corpus.held_out, corpus.test)
        values: dict[str, Any] = {
            "contender": self.contender,
            "use": self.purpose,
            "text": self.text_name,
            "fold": self.config.data.fold,
            "digest": self.digest,
            "board": self.board,
            "tokens": {name: len(part) for name, part in zip(PARTS, parts, strict=True) if part is not None},
            "authors": {side.name: side.authors for side in corpus.division.sides[1:]},
            "lr": training.lr,
            "seed": training.seed,
            "batches": training.batches,
            "passes": round(windows.epochs(training.batches, training.batch), 3),
            "ffn": config.ffn_width,
            "parameters": quantity(config, "params"),
            "embedding": config.vocab * config.dim,
            "backends": surroundings.get("backends", {}),
            "seconds": round(sum(row["seconds"] for row in rows if "loss" in row), 1),
            "training": None,
            "validation": None,
            **dict.fromkeys(SCORES),
            "state_bytes": {},
            "failed": failed,
        }
        if failed is None:
            values["training"] = statistics.median(losses[-last_tenth(len(losses)) :])
            values["validation"] = [row for row in rows if "held_out" in row][-1]["held_out"]
            if corpus.test is not None:
                model, _ = load(run.folder, device=choose_device(training.device))
                with use(**self.config.backends), torch.no_grad():
                    values |= self.test_scores(model, corpus)
        return [BoardRow.model_validate(values)]

    def test_scores(self, model: Model, corpus: Corpus) -> dict[str, Any]:
        """The scores on the test text: in windows of the context, and, for models that stream on, of `LONG` tokens."""
        assert corpus.test is not None
        assert corpus.division is not None
        context, batch = self.config.layered_model.context, self.config.training.batch
        in_context = Spans(model, corpus.test, context, batch)
        values: dict[str, Any] = {
            "loss": in_context.loss,
            "bits_per_byte": in_context.bits_per_byte,
            "by_position": in_context.by_position,
            "by_author": in_context.by_author(corpus.division.authors_of("test"), corpus.test),
        }
        if model.traits.streams and model.traits.longest is None:
            beyond_context = Spans(model, corpus.test, LONG, max(1, batch * context // LONG))
            values |= {
                "bits_per_byte_long": beyond_context.bits_per_byte,
                "by_position_long": beyond_context.by_position,
                "state_bytes": state_bytes(model, corpus.test),
            }
        return values

    def steps(self) -> list[tuple[RunConfig, float]]:
        """As `RunCell.steps`, without rate, seed and fold, which take the same time and share a line of the plan."""
        batches = self.config.training.batches
        training = self.config.training.model_copy(update={"lr": MIDDLE, "seed": 0})
        data = self.config.data.model_copy(update={"seed": 0, "fold": None})
        config = self.config.model_copy(update={"training": training, "data": data})
        return [(config, batches + self.scoring)]

    def text(self, rows: Sequence[BoardRow]) -> str:
        """The losses."""
        (row,) = rows
        tested = f", test {row.bits_per_byte:.4f} bits per byte" if row.bits_per_byte is not None else ""
        return row.failed or f"validation {row.validation:.4f}{tested}"

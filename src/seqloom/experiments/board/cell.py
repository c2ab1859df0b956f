"""One run of the board: a training, and the scores of the trained model on the test books.

    bits per byte of a span of positions = Σ -log2 p over its tokens / its tokens / bytes per token of the whole text

so that the mean of the spans, weighted by their tokens, is that of the whole text. Windows of `LONG` tokens are read in
pieces, which pass on the state.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

import torch
from torch.nn.functional import cross_entropy

from seqloom.analysis.match import quantity
from seqloom.core.device import chosen
from seqloom.core.model import Model
from seqloom.core.state import nbytes
from seqloom.data.authors import PARTS
from seqloom.data.tokens import Tokens
from seqloom.data.windows import held_out
from seqloom.evaluation.scores import widened
from seqloom.experiments.board.lineup import RATES
from seqloom.experiments.board.rows import BoardRow
from seqloom.experiments.contender_cell import last_tenth
from seqloom.experiments.study import RunCell
from seqloom.ops.backends import use
from seqloom.runs import checkpoint
from seqloom.runs.layout import Run, identity
from seqloom.runs.metrics import read
from seqloom.runs.model import load
from seqloom.training.config import RunConfig
from seqloom.training.preparation import with_text

LONG = 2048
"""tokens of the long windows, more than the context in training"""
EDGES = (0, 64, 256, 512, 1024, 2048)
SCORES = ("training", "validation", "loss", "bits_per_byte", "by_position", "bits_per_byte_long", "by_position_long")
"""the fields of a row that are None where the loss of the run became NaN"""
PIECE = 512
"""tokens of a piece that is read from a state"""
LENGTHS = (512, 2048, 8192)
"""tokens of a text after which the size of the state is measured"""


@final
@dataclass(frozen=True, kw_only=True)
class BoardCell(RunCell):
    """A contender trained at a learning rate from a seed."""

    schema: ClassVar = BoardRow
    contender: str
    board: str
    """digest of what all runs of the study share"""

    @property
    def digest(self) -> str:
        """The digest under which the row is stored."""
        return identity(self.settings)

    def read(self, run: Run, failed: str | None) -> list[BoardRow]:
        """One row: losses on validation and test books, sizes, bytes of the state, backends, seconds."""
        config, training = self.config.layered, self.config.training
        rows = read(run.metrics)
        losses = [row["loss"] for row in rows if "loss" in row]
        _, corpus = with_text(self.config)
        assert corpus.test is not None
        assert corpus.division is not None
        embedding = config.vocab * config.dim
        newest = checkpoint.peek(run.checkpoints)
        surroundings = newest.meta["surroundings"] if newest is not None else {}
        shared = {
            "contender": self.contender,
            "digest": self.digest,
            "board": self.board,
            "tokens": dict(zip(PARTS, map(len, (corpus.train, corpus.held_out, corpus.test)), strict=True)),
            "authors": {side.name: side.authors for side in corpus.division.sides[1:]},
            "lr": training.lr,
            "seed": training.seed,
            "batches": training.batches,
            "ffn": config.ffn,
            "parameters": quantity(config, "params"),
            "embedding": embedding,
            "backends": surroundings.get("backends", {}),
            "seconds": round(sum(row["seconds"] for row in rows if "loss" in row), 1),
        }
        if failed is not None:
            no_scores = dict.fromkeys(SCORES)
            return [BoardRow.model_validate({**shared, **no_scores, "state_bytes": {}, "failed": failed})]
        model, _ = load(run.folder, device=chosen(training.device))
        with use(**self.config.backends), torch.no_grad():
            in_context = Spans(model, corpus.test, config.context, training.batch)
            unlimited = model.traits.streams and model.traits.longest is None
            beyond_context = (
                Spans(model, corpus.test, LONG, max(1, training.batch * config.context // LONG)) if unlimited else None
            )
            bytes_by_length = state_bytes(model, corpus.test) if unlimited else {}
        return [
            BoardRow.model_validate(
                {
                    **shared,
                    "training": statistics.median(losses[-last_tenth(len(losses)) :]),
                    "validation": [row for row in rows if "held_out" in row][-1]["held_out"],
                    "loss": in_context.loss,
                    "bits_per_byte": in_context.bits_per_byte,
                    "by_position": in_context.by_position,
                    "bits_per_byte_long": beyond_context.bits_per_byte if beyond_context else None,
                    "by_position_long": beyond_context.by_position if beyond_context else None,
                    "state_bytes": bytes_by_length,
                }
            )
        ]

    def steps(self) -> list[tuple[RunConfig, float]]:
        """As `RunCell.steps`, without rate and seed, which take the same time and share a line of the plan."""
        training = self.config.training.model_copy(update={"lr": RATES[1], "seed": 0})
        data = self.config.data.model_copy(update={"seed": 0})
        config = self.config.model_copy(update={"training": training, "data": data})
        return [(config, training.batches + self.scoring)]

    def text(self, rows: Sequence[BoardRow]) -> str:
        """The losses."""
        (row,) = rows
        return row.failed or f"validation {row.validation:.4f}, test {row.bits_per_byte:.4f} bits a byte"


@final
class Spans:
    """The loss of a text whose tokens are each predicted once, in windows of `length` tokens, `rows` at a time."""

    def __init__(self, model: Model, tokens: Tokens, length: int, rows: int) -> None:
        sums, counts = (torch.zeros(length, dtype=torch.float64) for _ in range(2))
        for inputs, targets, counted in held_out(tokens, length, rows):
            nats = torch.where(counted, _nats(model, inputs.to(model.device), targets.to(model.device)).cpu(), 0.0)
            sums += nats.double().sum(0)
            counts += counted.sum(0)
        total, count = float(sums.sum()), int(counts.sum())
        self.loss = total / count
        """nats per token"""
        bits = count / int(tokens.sizes.sum()) / math.log(2)
        self.bits_per_byte = self.loss * bits
        self.by_position = {
            f"{first + 1}-{last}": float(sums[first:last].sum() / counts[first:last].sum()) * bits
            for first, last in pairwise(EDGES)
            if last <= length and counts[first:last].sum()
        }
        """bits per byte by the number of tokens of the window that come before the predicted one"""


def _nats(model: Model, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The loss of each target (B, T); where T is above the context, the window is read in pieces."""
    if inputs.shape[1] <= model.config.context:
        return cross_entropy(widened(model(inputs)).transpose(1, 2), targets, reduction="none")
    state = model.start(len(inputs))
    losses = []
    for piece, piece_targets in zip(inputs.split(PIECE, 1), targets.split(PIECE, 1), strict=True):
        logits, state = model.extend(piece, state)
        losses.append(cross_entropy(widened(logits).transpose(1, 2), piece_targets, reduction="none"))
    return torch.cat(losses, 1)


def state_bytes(model: Model, tokens: Tokens) -> dict[str, int]:
    """Bytes of the state of one row, by the number of tokens (`LENGTHS`) that it has read of the text."""
    text = torch.from_numpy(tokens.ids[: LENGTHS[-1]].astype("int64"))[None].to(model.device)
    stops = (*LENGTHS, text.shape[1])
    state = model.start(1)
    sizes: dict[str, int] = {}
    read = 0
    while read < text.shape[1]:
        next_stop = min(stop for stop in stops if stop > read)
        end = min(next_stop, read + PIECE)
        _, state = model.read(text[:, read:end], state)
        read = end
        if read in LENGTHS:
            sizes[str(read)] = nbytes(model.trim(state))
    return sizes

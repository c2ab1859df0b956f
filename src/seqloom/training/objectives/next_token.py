"""Next token: every token of a window predicted from those before it.

    loss = -1/n Σ ln p(token t+1 | tokens 1 … t)          nats per token, over the n targets of a batch

Source: the Extractor paper's section 6: windows of the text at stride 1, shuffled (`seqloom.data.windows`). With
`data.packed` the rows hold whole documents (`seqloom.data.packing`), which the paper does not do: tokens 1 … t are
those of the document, so that loss and gradient are those of the documents read one by one.
"""

from abc import ABC
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.extras import Extras, weight_extras
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.mixture import Mixture, windows_of
from seqloom.data.packing import PackedRows
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.evaluation.scores import score
from seqloom.ops.past.pack import by_length, separate
from seqloom.training.objectives.neighbors import neighbor_arguments
from seqloom.training.objectives.text import TextObjectiveConfig

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


@final
class NextTokenConfig(TextObjectiveConfig):
    """Predicts every token of a text from those before it."""

    kind: Literal["next_token"] = "next_token"
    resizes: ClassVar = True

    @override
    def check_packed(self, run: "RunConfig") -> None:
        if run.training.compile:
            raise ValueError(
                "data.packed gives each batch other shapes, which training.compile would compile anew: choose one"
            )

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "ScoredByToken":
        if data.packed:
            return PackedNextToken(tokens, model.context, rows)
        return NextToken(tokens, model.context, rows, data.within_documents, data.disjoint, whole=model.fits)


class ScoredByToken(Objective, ABC):
    """What is scored by the mean loss of every held-out token; `rows` of `context` tokens per step."""

    def __init__(self, rows: int, context: int) -> None:
        super().__init__()
        self.rows = rows
        self.context = context

    @override
    def resize(self, context: int) -> None:
        self.context = context

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """Every held-out token predicted once: see `seqloom.evaluation.scores`."""
        return score(model, held_out, batch=self.rows).row()

    @override
    def summary(self, row: Row) -> str:
        """The held-out loss, by token and by byte."""
        return by_token(row)


def by_token(row: Row) -> str:
    """The held-out loss per token in words, with bits per byte or the share of unknown tokens."""
    if row.get("unknown"):
        return f"held-out loss {format_cell(row['held_out'])} nats a token, {row['unknown']:.1%} of which are unknown"
    return f"held-out loss {format_cell(row['held_out'])} nats a token, {format_cell(row['bits_per_byte'])} bits a byte"


@final
class NextToken(ScoredByToken):
    """Windows of `context` + 1 ids of a text, `rows` per step.

    With `whole`, a step never crosses the end of a pass over the text: the last step of a pass may have fewer rows.
    """

    def __init__(
        self,
        tokens: Tokens | None,
        context: int,
        rows: int,
        within_documents: bool = False,
        disjoint: bool = False,
        whole: bool = False,
    ) -> None:
        super().__init__(rows, context)

        @cache
        def windows(seed: int, context: int) -> Windows | Mixture:
            assert tokens is not None, "this objective was built for scoring alone"
            return windows_of(tokens, context, seed, within_documents, disjoint)

        self._windows = windows
        self._whole = whole

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1)."""
        windows = self._windows(seed, self.context)
        if self._whole:
            assert isinstance(windows, Windows)
            return {"ids": windows.pass_batch(step, self.rows)}
        return {"ids": windows.batch(step, self.rows)}

    @override
    def pass_steps(self, seed: int) -> int:
        windows = self._windows(seed, self.context)
        assert isinstance(windows, Windows), "require_windows has refused several sources"
        return windows.pass_steps(self.rows)

    @override
    def targets(self, batch: Batch) -> int:
        """All ids but the first of each row."""
        return batch["ids"][:, 1:].numel()

    @override
    def row_size(self, batch: Batch) -> tuple[int, int]:
        tokens = batch["ids"].shape[1] - 1
        return tokens, tokens

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a token."""
        ids = batch["ids"]
        loss, extras = model.loss_with_extras(ids[:, :-1], ids[:, 1:], **neighbor_arguments(batch))
        return Pass({"loss": loss}, extras)


@final
class PackedNextToken(ScoredByToken):
    """Whole documents in rows of `context` + 1 ids, `rows` per step."""

    def __init__(self, tokens: Tokens | None, context: int, rows: int) -> None:
        super().__init__(rows, context)

        @cache
        def pack_rows(seed: int, context: int) -> PackedRows:
            assert tokens is not None, "this objective was built for scoring alone"
            return PackedRows(tokens, context, seed)

        self._packed = pack_rows

    @override
    def description(self, seed: int) -> str:
        """Documents, rows, and the share of padding."""
        return self._packed(seed, self.context).description

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1) and `document` (B, T + 1), its number in the row from 0, or -1 at padding."""
        ids, document = self._packed(seed, self.context).batch(step, self.rows)
        return {"ids": ids, "document": document}

    @override
    def targets(self, batch: Batch) -> int:
        """All ids but the first of each document."""
        return int(_follows(batch["document"]).sum())

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "packed documents give each batch other shapes"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a token, each document read by itself: documents of similar lengths in one pass.

        The shapes depend on the documents, so that the host waits for the device.
        """
        ids, document = batch["ids"], batch["document"]
        count = _follows(document).sum()
        losses: list[Tensor] = []
        extras: list[tuple[Extras, Tensor]] = []
        for group in by_length(document):
            rows, keep, _ = separate(ids[:, :, None], group)
            inputs = rows[:, :-1, 0]
            targets = rows[:, 1:, 0]
            keep = keep[:, 1:]  # a document's last token is a target alone
            loss, group_extras = model.loss_with_extras(inputs, targets, keep=keep)
            share = keep.sum().to(loss.dtype) / count
            losses.append(share * loss)
            extras.append((group_extras, share))
        return Pass({"loss": torch.stack(losses).sum()}, weight_extras(extras))


def _follows(document: Tensor) -> Tensor:
    """(B, T), True where the next token belongs to the same document."""
    return (document[:, 1:] == document[:, :-1]) & (document[:, 1:] >= 0)

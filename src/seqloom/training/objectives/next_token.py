"""Next token: every token of a window predicted from those before it.

    loss = -1/(B T) Σ ln p(token t+1 | tokens 1 … t)          nats per token

Source: the Extractor paper's section 6: windows of the text at stride 1, shuffled (`seqloom.data.windows`).
"""

from functools import cache
from typing import Any, Literal, final

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.model import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.table import written
from seqloom.data.config import DataConfig
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows
from seqloom.evaluation.scores import score
from seqloom.training.objectives.config import ObjectiveConfig


@final
class NextTokenConfig(ObjectiveConfig):
    """Predicts every token of a text from those before it."""

    kind: Literal["next_token"] = "next_token"

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "NextToken":
        return NextToken(tokens, model.context, rows, data.within_documents)


@final
class NextToken(Objective):
    """Windows of `context` + 1 ids of a text, `rows` per step."""

    def __init__(self, tokens: Tokens | None, context: int, rows: int, within_documents: bool = False) -> None:
        super().__init__()
        self.rows = rows

        @cache
        def windows(seed: int) -> Windows:
            assert tokens is not None, "it was built to score"
            return Windows(tokens, context, seed, within_documents)

        self._windows = windows

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T + 1)."""
        return {"ids": self._windows(seed).batch(step, self.rows)}

    @override
    def targets(self, batch: Batch) -> int:
        """All ids but the first of each row."""
        return batch["ids"][:, 1:].numel()

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a token; the logits are taken in float32 at least."""
        ids = batch["ids"]
        logits, extras = model.forward_with_extras(ids[:, :-1])
        wide = torch.promote_types(logits.dtype, torch.float32)
        loss = cross_entropy(logits.to(wide).flatten(0, 1), ids[:, 1:].flatten())
        return Pass({"loss": loss}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """Every held-out token predicted once: see `seqloom.evaluation.scores`."""
        return score(model, held_out, batch=self.rows).row()

    @override
    def summary(self, row: Row) -> str:
        """The held-out cost, by token and by byte."""
        return f"held-out cost {written(row['held_out'])} nats a token, {written(row['bits_per_byte'])} bits a byte"

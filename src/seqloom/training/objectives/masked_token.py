"""Masked tokens: some tokens of a window hidden (`seqloom.data.masking`), and predicted from all others.

    loss = -1/(B n) Σ over the n chosen t of each row of ln p(token t | the row as changed)        nats per chosen token

The mask is one more entry of the vocabulary, after those of the tokenizer. What is hidden is a pure function of the
seed and the number of the row.

Source: Devlin et al., BERT, arXiv:1810.04805, section 3.1. What differs: `<eos>` may be chosen too, and there is no
next-sentence prediction.
"""

from functools import cache
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from jaxtyping import Float
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.shapes import Stream
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.masking import hide_tokens
from seqloom.data.mixture import Mixture, windows_of
from seqloom.data.tokens import Tokens
from seqloom.data.windows import Windows, held_out
from seqloom.evaluation.scores import require_tokens, widen_logits
from seqloom.training.objectives.text import TextObjectiveConfig

JUDGED = 2**40
"""the number of the first held-out row: it decides what is hidden in the row, and no training reaches it"""


@final
class MaskedTokenConfig(TextObjectiveConfig):
    """Predicts hidden tokens of a text from all others, as BERT does."""

    kind: Literal["masked_token"] = "masked_token"
    share: float = Field(0.15, gt=0, lt=1, description="fraction of the tokens that are selected for prediction")
    span: float = Field(
        1.0, ge=1, le=100, description="mean length, in tokens, of a masked span (SpanBERT: 5); 1: single tokens"
    )
    later: ClassVar = ("span",)
    causal: ClassVar = False
    resizes: ClassVar = True
    least_context: ClassVar = 2  # a hidden token, and one to predict it from

    @override
    def vocab(self, tokens: int) -> int:
        """The number of tokens, and one more for the mask."""
        return tokens + 1

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "MaskedToken":
        return MaskedToken(tokens, model, rows, self.share, data, self.span)


@final
class MaskedToken(Objective):
    """Windows of `context` ids of a text, `rows` per step; the last id of the model's vocabulary is the mask."""

    def __init__(
        self, tokens: Tokens | None, model: ModelConfig, rows: int, share: float, data: DataConfig, span: float = 1.0
    ) -> None:
        super().__init__()
        self.rows = rows
        self.context = model.context
        self.share = share
        self.span = span
        self.mask = model.vocab - 1
        self.seed = data.seed

        @cache
        def windows(seed: int, context: int) -> Windows | Mixture:
            assert tokens is not None, "it was built to score"
            return windows_of(tokens, context - 1, seed, data.within_documents, data.disjoint)

        self._windows = windows

    @override
    def resize(self, context: int) -> None:
        self.context = context

    def windows(self, seed: int) -> Windows | Mixture:
        """The windows (B, T) of the text, in the order of a seed."""
        return self._windows(seed, self.context)

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, T) as the model reads them; `chosen` (B, n), positions; `targets` (B, n), the ids that were there.

        As each row has T tokens, n is the same for all.
        """
        ids = self.windows(seed).batch(step, self.rows).numpy()
        inputs, chosen = self._hide_tokens(ids, np.ones_like(ids, bool), seed, step * self.rows)
        positions = np.nonzero(chosen)[1].reshape(len(ids), -1)
        targets = np.take_along_axis(ids, positions, 1)
        arrays = {"ids": inputs, "chosen": positions, "targets": targets}
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    @override
    def targets(self, batch: Batch) -> int:
        """The chosen tokens of these rows."""
        return batch["targets"].numel()

    @override
    def count_tokens(self, batch: Batch) -> int:
        return batch["ids"].numel()

    @override
    def row_size(self, batch: Batch) -> tuple[int, int]:
        return batch["ids"].shape[1], batch["targets"].shape[1]

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss over chosen tokens, with logits in float32 or better."""
        x, extras = model.features_with_extras(batch["ids"])
        return Pass({"loss": loss_of_chosen(model, x, batch)}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss and the share of right predictions over hidden tokens of the held-out text, always the same.

        Windows lie side by side and restart at each document, as in `seqloom.evaluation.scores`.
        """
        require_tokens(held_out, self.mask)
        with Rest(model):
            return self._score_model(model, held_out)

    @override
    def summary(self, row: Row) -> str:
        """Loss and accuracy."""
        loss, accuracy = format_cell(row["held_out"]), f"{row['accuracy']:.1%}"
        return f"held-out loss {loss} nats per masked token, {accuracy} of {row['masked']:,} right"

    def _score_model(self, model: Any, tokens: Tokens) -> Row:
        """`score`, of a model in evaluation mode."""
        nats = 0.0
        right = 0
        count = 0
        first_row = JUDGED
        for _, ids, keep in held_out(tokens, model.config.context, self.rows):
            inputs, is_chosen = self._hide_tokens(ids.numpy(), keep.numpy(), self.seed, first_row)
            chosen = torch.from_numpy(is_chosen)
            targets = ids[chosen]
            x = model.features(torch.from_numpy(inputs).to(model.device), keep.to(model.device))
            logits = widen_logits(model.logits(x[chosen.to(model.device)][None]))[0].cpu()
            nats += float(cross_entropy(logits.double(), targets, reduction="sum"))
            right += int((logits.argmax(1) == targets).sum())
            count += len(targets)
            first_row += len(ids)
        return {"held_out": nats / count, "accuracy": right / count, "masked": count}

    def _hide_tokens(self, ids: Any, keep: Any, seed: int, first_row: int) -> tuple[Any, Any]:
        """The rows (B, T) with tokens hidden, and which tokens were chosen; the rows count from `first_row`."""
        return hide_tokens(
            ids, keep, share=self.share, span=self.span, vocab=self.mask, mask=self.mask, seed=seed, first=first_row
        )


def loss_of_chosen(model: Any, x: Stream, batch: Batch) -> Float[Tensor, ""]:
    """The mean loss of the chosen tokens of a batch, given the stream x (B, T, D) after the last layer."""
    positions = batch["chosen"][:, :, None].expand(-1, -1, x.shape[2])
    logits = model.logits(x.gather(1, positions))
    return cross_entropy(widen_logits(logits).flatten(0, 1), batch["targets"].flatten())

"""Next token with a memory: each row reads its own stretch of the text on, from the state after the step before.

    h_0 = start,  or the detached state after the step before
    p, h_n = extend(segment n, h_{n-1})            n = 1 … N segments of T tokens in a step; gradients go through these
    loss = -1/(B N T) Σ ln p(token t+1 | tokens of the stretch up to t)

With `within_documents` a row begins again at each `<eos>` that it reads: a document is read from its first token, and
nothing is remembered of the one before it.

N is `training.through`. Any model that streams can be trained so: what its state forgets is forgotten. The held-out
text is read on as well, each document from its first token (`seqloom.evaluation.reading`).

Source: truncated backpropagation through time (Williams and Peng, 1990), with N segments in place of overlapping ones;
Dai et al., Transformer-XL, arXiv:1901.02860, section 3.2, whose layers, however, keep their inputs and not their state.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.extras import weight_extras
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.state import fill_state, flat, restart_rows
from seqloom.data.segments import Segments
from seqloom.data.tokens import Tokens
from seqloom.evaluation.reading import score_reading
from seqloom.evaluation.scores import widen_logits
from seqloom.training.objectives.neighbors import neighbor_arguments
from seqloom.training.objectives.next_token import by_token


@final
@dataclass(frozen=True)
class _Part:
    """The tokens of a piece that are read at once."""

    keep: Tensor | None
    """(B, T), which positions are targets; None for all"""
    begins: Tensor | None
    """(B,), the rows in which they begin a document; None for the first part, in which they go on with one"""
    share: Tensor
    """of all tokens of the piece"""


@final
class CarriedNextToken(Objective):
    """Stretches of a text, `rows` of them; a step reads `through` segments of `context` ids of each."""

    def __init__(
        self, tokens: Tokens | None, context: int, rows: int, through: int, within_documents: bool = False
    ) -> None:
        super().__init__()
        self.context = context
        self.rows = rows
        self.through = through
        self.eos = tokens.eos if tokens is not None and within_documents else None

        @cache
        def segments(seed: int) -> Segments:
            assert tokens is not None, "it was built to score"
            return Segments(tokens, through * context, rows, seed)

        self._segments = segments

    @override
    def description(self, seed: int) -> str:
        """How the text is divided."""
        steps = self._segments(seed).steps
        return f"{self.rows} stretches of {steps * self.through * self.context:,} tokens, read on in {steps:,} steps"

    @override
    def pass_steps(self, seed: int) -> int:
        return self._segments(seed).steps

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """`ids` (B, N T + 1), and `first` (B,), whether the rows begin their stretches: all of them, or none."""
        ids, first = self._segments(seed).batch(step)
        return {"ids": ids, "first": torch.full((len(ids),), first)}

    @override
    def targets(self, batch: Batch) -> int:
        """The number of targets: all ids but the first of each row."""
        return batch["ids"][:, 1:].numel()

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "training.memory=carry passes a state from step to step"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a token; carries the state of every row."""
        ids = batch["ids"]
        state = model.start(len(ids))
        if carried and not bool(batch["first"][0]):
            state = fill_state(state, carried)
        all_logits: list[Tensor] = []  # of each piece
        extras = []
        for number, piece in enumerate(ids[:, :-1].split(self.context, 1)):
            arguments = neighbor_arguments(batch, number * self.context, (number + 1) * self.context)
            for part in self._documents(piece):
                if part.begins is not None:
                    state = restart_rows(state, part.begins, model.start(len(ids)))
                logits, state, part_extras = model.extend_with_extras(piece, state, part.keep, **arguments)
                if part.begins is None or part.keep is None:
                    all_logits.append(widen_logits(logits))
                else:
                    all_logits[-1] = torch.where(part.keep[:, :, None], widen_logits(logits), all_logits[-1])
                extras.append((part_extras, part.share / self.through))
        loss = cross_entropy(torch.cat(all_logits, 1).flatten(0, 1), ids[:, 1:].flatten())
        after = {name: tensor.detach() for name, tensor in flat(model.trim(state)).items()}
        return Pass({"loss": loss}, weight_extras(extras), after)

    def _documents(self, piece: Tensor) -> Iterator[_Part]:
        """A piece (B, T) by the documents in its rows: the rest of the one before it, the next one, and so on."""
        if self.eos is None:
            yield _Part(None, None, torch.tensor(1.0, device=piece.device))
            return
        number = (piece == self.eos).cumsum(1)  # of each token's document in its row (B, T)
        for document in range(int(number.max()) + 1):
            keep = number == document
            yield _Part(keep, keep.any(1) if document else None, keep.sum() / keep.numel())

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """Every held-out token predicted once from all before it in its document that the state still holds."""
        return score_reading(model, held_out, batch=self.rows).row()

    @override
    def summary(self, row: Row) -> str:
        """The held-out loss, by token and by byte."""
        return by_token(row)

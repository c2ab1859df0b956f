"""Contrastive predictive coding next to masked tokens: whole segments are hidden, and recognized by what is predicted.

    p_i = mean of x_t over the hidden segment i                    x: the stream of the row, in which it is hidden
    z_i = mean of x_t of segment i, read alone
    loss = masked_token + λ mean of -ln e^{p_i · z_i / √D} / Σ_j e^{p_i · z_j / √D}     j: all hidden segments of a step

A row is cut into segments of s tokens, and a share of them is hidden, besides the single tokens of `masked_token`.

Code: s is `segment`, λ is `weight`.

Source: van den Oord et al., arXiv:1807.03748, Eq. 4; Ainslie et al., ETC, arXiv:2004.08483, section 2.4. What differs:
there segments are sentences, and the global token of a sentence is in place of the mean.
"""

import math
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
from seqloom.data.config import DataConfig
from seqloom.data.probes.draws import Draws
from seqloom.data.tokens import Tokens
from seqloom.data.windows import held_out as cut_windows
from seqloom.training.objectives.masked_token import JUDGED, MaskedToken, loss_of_chosen
from seqloom.training.objectives.text import TextObjectiveConfig


@final
class ContrastiveConfig(TextObjectiveConfig):
    """Predicts hidden tokens, and recognizes hidden segments among those of other rows."""

    kind: Literal["contrastive"] = "contrastive"
    share: float = Field(0.15, gt=0, lt=1, description="fraction of the tokens that are selected for prediction")
    segment: int = Field(16, ge=1, description="tokens of a segment")
    hidden: float = Field(
        0.1, gt=0, lt=1, description="fraction of the segments of a row that are hidden, at least one"
    )
    weight: float = Field(0.2, ge=0, description="factor of the contrastive loss")
    causal: ClassVar = False

    @override
    def vocab(self, tokens: int) -> int:
        """The number of tokens, and one more for the mask."""
        return tokens + 1

    @override
    def check_model(self, model: ModelConfig) -> None:
        super().check_model(model)
        if model.context < 2 * self.segment:
            raise ValueError(
                f"training.objective.segment={self.segment} needs model.context={2 * self.segment} or more, "
                f"so that not all is hidden, not {model.context}"
            )

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Contrastive":
        words = MaskedToken(tokens, model, rows, self.share, data)
        return Contrastive(words, self)


@final
class Contrastive(Objective):
    """The rows of `masked_token`, in which segments are hidden too."""

    def __init__(self, words: MaskedToken, config: ContrastiveConfig) -> None:
        super().__init__()
        self.words = words
        self.config = config

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """That of `masked_token`, and `segments` (B, h), those that are hidden, with their ids `alone` (B, h, s)."""
        ids = self.words.windows(seed).batch(step, self.words.rows)
        count = ids.shape[1] // self.config.segment
        draws = Draws(f"hidden segments {seed}", step * self.words.rows, len(ids))
        segments = np.sort(draws.draw_distinct(count, max(1, round(self.config.hidden * count))), 1)
        return self._hide(ids, self.words.batch(seed, step, model), torch.from_numpy(segments))

    @override
    def targets(self, batch: Batch) -> int:
        """The chosen tokens of these rows."""
        return self.words.targets(batch)

    @override
    def count_tokens(self, batch: Batch) -> int:
        return batch["ids"].numel() + batch["alone"].numel()

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "segments of other rows are what a segment is told from" if pieces > 1 else ""

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The loss of the chosen tokens, and that of the hidden segments, times its weight."""
        x, extras = model.features_with_extras(batch["ids"])
        scores = self._score_segments(model, x, batch)
        right = torch.arange(len(scores), device=scores.device)
        losses = {
            "loss": loss_of_chosen(model, x, batch),
            "contrast": self.config.weight * cross_entropy(scores, right),
        }
        return Pass(losses, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The row of `masked_token`, and the share of hidden segments that are recognized among those of their step."""
        row = self.words.score(model, held_out)
        right = count = 0
        windows = cut_windows(held_out, model.config.context, self.words.rows)
        with Rest(model), torch.no_grad():
            for number, (_, ids, keep) in enumerate(windows):
                full = keep.sum(1) // self.config.segment  # segments of a row, of which the end of a document has fewer
                draws = Draws(f"hidden segments {self.words.seed}", JUDGED + number * self.words.rows, len(ids))
                segments = torch.from_numpy(draws.below(2**32, 1)) % full.clamp(min=1)[:, None]
                used = full > 1
                if not used.any():
                    continue
                cpu_batch = self._hide(ids[used], {"ids": ids[used], "keep": keep[used]}, segments[used])
                batch = {name: tensor.to(model.device) for name, tensor in cpu_batch.items()}
                scores = self._score_segments(model, model.features(batch["ids"], batch["keep"]), batch)
                right += int((scores.argmax(1).cpu() == torch.arange(len(scores))).sum())
                count += len(scores)
        return {**row, "segments": count, "recognized": right / count if count else None}

    @override
    def summary(self, row: Row) -> str:
        """Loss and accuracy, and the share of segments that are recognized."""
        share = "none to recognize" if row["recognized"] is None else f"{row['recognized']:.1%} recognized"
        return f"{self.words.summary(row)}; {row['segments']:,} hidden segments, {share}"

    def _hide(self, ids: Tensor, batch: Batch, segments: Tensor) -> Batch:
        """A batch in whose `ids` the segments (B, h) are hidden; `ids` (B, T) are the rows as they are in the text."""
        places = _places(segments, self.config.segment)
        alone = ids.gather(1, places.flatten(1)).view(places.shape)
        masked = batch["ids"].scatter(1, places.flatten(1), self.words.mask)
        return {**batch, "ids": masked, "segments": segments, "alone": alone}

    def _score_segments(self, model: Any, x: Tensor, batch: Batch) -> Float[Tensor, "N N"]:
        """p_i · z_j / √D of all hidden segments of a batch, given the stream x (B, T, D) of its rows."""
        places = _places(batch["segments"], self.config.segment)
        of_rows = x.gather(1, places.flatten(1)[:, :, None].expand(-1, -1, x.shape[2]))
        mean = of_rows.unflatten(1, places.shape[1:]).mean(2).flatten(0, 1)
        alone = model.features(batch["alone"].flatten(0, 1)).mean(1)
        scores: Tensor = mean @ alone.mT / math.sqrt(x.shape[2])
        return scores.to(torch.promote_types(scores.dtype, torch.float32))


def _places(segments: Tensor, size: int) -> Tensor:
    """The positions (B, h, s) of the tokens of segments (B, h)."""
    return segments[:, :, None] * size + torch.arange(size, device=segments.device)

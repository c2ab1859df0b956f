"""Pairs: each token of a target, predicted from its source and the target's tokens before it (`seqloom.data.pairs`).

    loss = -1/N Σ Σ_w q(w) ln p(w | source, <eos>, y_1 … y_{t-1})           nats per token; N tokens of all targets
    q(y_t) = 1 - ε + ε/W,   q(w) = ε/W for other w                          ε: `smoothing`, 0 by default

A target's `<eos>` is predicted too; the source is not. Every pair is read once an epoch, in an order of its own; rows
are padded to the longest of their batch. What is scored has no smoothing: the loss, and the share of targets that
greedy decoding writes exactly, `<eos>` included.

Source: Sutskever et al., arXiv:1409.3215, section 3.2; ε: Szegedy et al., arXiv:1512.00567, section 7, 0.1 in Vaswani
et al., arXiv:1706.03762, section 5.4. Nothing differs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.extras import Extras
from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.given_tokenizer import Unit
from seqloom.data.paired import encode_pairs, prepare_paired
from seqloom.data.pairs import read_pairs
from seqloom.data.permutation import permute
from seqloom.data.prepare import Corpus
from seqloom.data.random_texts import random_examples
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import require_tokens, widen_logits
from seqloom.generation.translation import translate
from seqloom.training.objectives.text import WINDOWS, TextObjectiveConfig

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


@final
class PairsConfig(TextObjectiveConfig):
    """Predicts the target of each pair from its source."""

    kind: Literal["pairs"] = "pairs"
    smoothing: float = Field(0.0, ge=0, lt=1, description="label smoothing: probability spread over all tokens")
    made_for: ClassVar = "seq2seq"

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "pairs have", (*WINDOWS, "column", "labels", "passage")

    @override
    def read(self, run: "RunConfig", tokenizer: Tokenizer | None, unit: Unit) -> Corpus:
        data = run.data
        return prepare_paired(
            data.source,
            vocab=data.vocab,
            context=run.model.context,
            held_out=data.held_out,
            seed=data.seed,
            tokenizer=tokenizer,
            unit=unit,
        )

    @override
    def encode(self, source: str, column: str | None, data: Mapping[str, Any], model: Any) -> Tokens:
        if column is not None:
            raise ValueError("pairs are read from the two columns of a .tsv file: leave out --column")
        return encode_pairs(read_pairs(source), model.tokenizer, model.config.context)

    @override
    def plain_text(self, data: DataConfig) -> None:
        return None

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        """A source and a target that fill the context each."""
        return Pairs(random_examples(2 * model.context + 1, model.vocab, 2), rows, self.smoothing)

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Pairs":
        return Pairs(tokens, rows, self.smoothing)


@final
class Pairs(Objective):
    """Pairs of a text whose documents are sources and targets in turn, `rows` per step."""

    def __init__(self, tokens: Tokens | None, rows: int, smoothing: float = 0.0) -> None:
        super().__init__()
        self.tokens = tokens
        self.rows = rows
        self.smoothing = smoothing

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The tensors of `pairs`, of the pairs of a step."""
        assert self.tokens is not None, "it was built to score"
        count = self.tokens.documents // 2
        epoch, index = np.divmod(np.arange(step * self.rows, (step + 1) * self.rows), count)
        return pairs(self.tokens, permute(index, epoch, count, seed))

    @override
    def targets(self, batch: Batch) -> int:
        """The tokens of the targets, `<eos>` included."""
        return int(batch["keep"].sum())

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "rows are as long as the longest pair of their batch"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of a token of the targets."""
        loss, extras = _loss(model, batch, self.smoothing)
        return Pass({"loss": loss}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss of a token of the held-out targets, and the share of targets that are written exactly."""
        require_tokens(held_out, model.config.vocab)
        if held_out.texts != 2:
            raise ValueError("a model that translates is scored on pairs: give a .tsv file or pairs:NAME")
        count = held_out.documents // 2
        nats = 0.0
        tokens = 0
        right = 0
        with Rest(model):
            for first in range(0, count, self.rows):
                cpu_batch = pairs(held_out, np.arange(first, min(first + self.rows, count)))
                batch = {name: tensor.to(model.device) for name, tensor in cpu_batch.items()}
                size = self.targets(batch)
                nats += float(_loss(model, batch, smoothing=0.0)[0]) * size
                tokens += size
                right += _exact(model, batch, held_out.eos)
        return {"held_out": nats / tokens, "accuracy": right / count, "pairs": count}

    @override
    def summary(self, row: Row) -> str:
        """Loss and exact match."""
        loss, exact = format_cell(row["held_out"]), f"{row['accuracy']:.1%}"
        return f"held-out loss {loss} nats per token, {exact} of {row['pairs']:,} targets exact"


def pairs(tokens: Tokens, chosen: "np.ndarray") -> Batch:
    """Chosen pairs of a text: `source` (B, S) with `source_keep`, `ids` (B, T) with `keep`, and `target` (B, T).

    `ids` is the target after `<eos>`, `target` the same one token later: with its own `<eos>`.
    """
    source, source_keep = _pad_documents(tokens, 2 * chosen)
    target, keep = _pad_documents(tokens, 2 * chosen + 1)
    ids = np.concatenate([np.full((len(target), 1), tokens.eos), target[:, :-1]], 1)
    arrays = {"source": source, "source_keep": source_keep, "ids": ids, "keep": keep, "target": target}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _pad_documents(tokens: Tokens, documents: "np.ndarray") -> tuple["np.ndarray", "np.ndarray"]:
    """The ids of documents with their `<eos>`, padded with more of it (B, T), and which of them are kept."""
    firsts, ends = tokens.starts[documents], tokens.ends[documents]
    positions = firsts[:, None] + np.arange(int((ends - firsts).max()))
    keep = positions < ends[:, None]
    ids = np.where(keep, tokens.ids[np.clip(positions, 0, len(tokens) - 1)], tokens.eos)
    return ids.astype(np.int64), keep


def _loss(model: Any, batch: Batch, smoothing: float) -> tuple[Tensor, Extras]:
    """The mean loss of a token of the targets, and the model's extras."""
    keep = batch["keep"]
    x, extras = model.features_with_extras(batch["ids"], keep, None, batch["source"], batch["source_keep"])
    logits = widen_logits(model.logits(x[keep][None])[0])
    return cross_entropy(logits, batch["target"][keep], label_smoothing=smoothing), extras


def _exact(model: Any, batch: Batch, eos: int) -> int:
    """How many targets of a batch greedy decoding writes exactly."""
    longest = batch["target"].shape[1]
    translations = translate(model, batch["source"], batch["source_keep"], eos=eos, max_tokens=longest)
    targets = [row[keep][:-1].tolist() for row, keep in zip(batch["target"], batch["keep"], strict=True)]
    return sum(translation == target for translation, target in zip(translations, targets, strict=True))

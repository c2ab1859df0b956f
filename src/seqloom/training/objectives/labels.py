"""Labels: the label of each example, predicted from its one or two texts (`seqloom.data.labels`).

    loss = -1/B Σ over the B examples of a batch of ln p(label | texts)                     nats per example

Every example is read once an epoch, in an order of its own; rows are padded to the longest of their batch.

Source: Devlin et al., BERT, arXiv:1810.04805, section 4, where all weights are trained. Nothing differs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Batch, Carried, Objective, Pass, Row
from seqloom.core.rest import Rest
from seqloom.core.table import format_cell
from seqloom.data.config import DataConfig
from seqloom.data.corpora import require_column
from seqloom.data.given_tokenizer import Unit
from seqloom.data.labelled import encode_examples, prepare_labelled
from seqloom.data.labels import examples_of
from seqloom.data.permutation import permute
from seqloom.data.prepare import Corpus
from seqloom.data.random_texts import random_examples
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import require_tokens, widen_logits
from seqloom.training.objectives.config import with_sizes
from seqloom.training.objectives.text import WINDOWS, TextObjectiveConfig

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig


@final
class LabelsConfig(TextObjectiveConfig):
    """Predicts the label of each example from its texts."""

    kind: Literal["labels"] = "labels"
    causal: ClassVar = False
    made_for: ClassVar = "classifier"

    @override
    def unused_data(self, data: DataConfig) -> tuple[str, tuple[str, ...]]:
        return "labelled examples have", (*WINDOWS, "passage") if data.labels == "given" else WINDOWS

    @override
    def read(self, run: "RunConfig", tokenizer: Tokenizer | None, unit: Unit) -> Corpus:
        data = run.data
        return prepare_labelled(
            data.source,
            task=data.labels,
            words=data.passage,
            vocab=data.vocab,
            context=run.model.context,
            held_out=data.held_out,
            seed=data.seed,
            column=data.column,
            tokenizer=tokenizer,
            unit=unit,
        )

    @override
    def with_corpus(self, run: "RunConfig", corpus: Corpus) -> "RunConfig":
        """The size of the vocabulary, the labels, and how many texts have one."""
        return with_sizes(super().with_corpus(run, corpus), labels=corpus.labels, texts=corpus.train.texts)

    @override
    def encode(self, source: str, column: str | None, data: Mapping[str, Any], model: Any) -> Tokens:
        if column is not None:
            require_column(source)
        found = examples_of(
            source,
            data.get("labels", "given"),
            column=data.get("column", "text") if column is None else column,
            words=data.get("passage", 64),
            seed=data.get("seed", 0),
        )
        return encode_examples(found, model.config.labels, model.tokenizer, model.config.context)

    @override
    def plain_text(self, data: DataConfig) -> None:
        return None

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        return Labels(random_examples(model.context, model.vocab, getattr(model, "texts", 1)), rows)

    @override
    def build(self, model: ModelConfig, data: DataConfig, rows: int, tokens: Tokens | None) -> "Labels":
        return Labels(tokens, rows)


@final
class Labels(Objective):
    """Examples of a labelled text, `rows` per step."""

    def __init__(self, tokens: Tokens | None, rows: int) -> None:
        super().__init__()
        self.tokens, self.rows = tokens, rows

    @override
    def batch(self, seed: int, step: int, model: nn.Module) -> Batch:
        """The tensors of `examples`, of the examples of a step."""
        assert self.tokens is not None, "it was built to score"
        count = len(_labels(self.tokens))
        epoch, index = np.divmod(np.arange(step * self.rows, (step + 1) * self.rows), count)
        return examples(self.tokens, permute(index, epoch, count, seed))

    @override
    def uncaptured_reason(self, pieces: int) -> str:
        return "rows are as long as the longest example of their batch"

    @override
    def losses(self, model: Any, batch: Batch, carried: Carried) -> Pass:
        """The mean loss of an example."""
        logits, extras = model.classify(batch["ids"], batch["keep"], batch.get("second"))
        return Pass({"loss": cross_entropy(widen_logits(logits), batch["label"])}, extras)

    @override
    def score(self, model: Any, held_out: Any) -> Row:
        """The mean loss of the held-out examples, and the share of right labels."""
        require_tokens(held_out, model.config.vocab)
        if held_out.texts != model.config.texts:
            raise ValueError(
                f"examples of {held_out.texts} texts do not fit a model that was trained on {model.config.texts}"
            )
        labels = _labels(held_out)
        nats = 0.0
        right = 0
        with Rest(model):
            for first in range(0, len(labels), self.rows):
                batch = examples(held_out, np.arange(first, min(first + self.rows, len(labels))))
                inputs = {name: tensor.to(model.device) for name, tensor in batch.items()}
                logits = widen_logits(model(inputs["ids"], inputs["keep"], inputs.get("second"))).cpu()
                nats += float(cross_entropy(logits.double(), batch["label"], reduction="sum"))
                right += int((logits.argmax(1) == batch["label"]).sum())
        return {"held_out": nats / len(labels), "accuracy": right / len(labels), "examples": len(labels)}

    @override
    def count_tokens(self, batch: Batch) -> int:
        return int(batch["keep"].sum())

    @override
    def summary(self, row: Row) -> str:
        """Loss and accuracy."""
        loss, accuracy = format_cell(row["held_out"]), f"{row['accuracy']:.1%}"
        return f"held-out loss {loss} nats per example, {accuracy} of {row['examples']:,} right"


def examples(tokens: Tokens, chosen: "np.ndarray") -> Batch:
    """Examples of a text: `ids` and `keep` (B, T), `label` (B,), and `second` (B, T) where there are two texts.

    A row begins with `<eos>`; `second` is 1 at the tokens of the second text and its `<eos>`.
    """
    texts, labels = tokens.texts, _labels(tokens)
    firsts = tokens.starts[chosen * texts]
    ends = tokens.ends[chosen * texts + texts - 1]
    offset = np.arange(1 + int((ends - firsts).max()))
    positions = firsts[:, None] + offset - 1  # in the text; the one before the first stands for `<eos>`
    keep = positions < ends[:, None]
    ids = np.where(keep & (offset > 0), tokens.ids[np.clip(positions, 0, len(tokens) - 1)], tokens.eos)
    arrays = {"ids": ids.astype(np.int64), "keep": keep, "label": labels[chosen]}
    if texts == 2:
        arrays["second"] = (keep & (positions >= tokens.starts[chosen * texts + 1][:, None])).astype(np.int64)
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def _labels(tokens: Tokens) -> Any:
    assert tokens.labels is not None, "the text has no labels"
    return tokens.labels

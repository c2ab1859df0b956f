"""The settings of an objective that reads a text, whose tokenizer decides the size of the vocabulary."""

from abc import ABC
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import override

from seqloom.core.model_config import ModelConfig
from seqloom.core.objective import Objective
from seqloom.data import archive
from seqloom.data.config import DataConfig
from seqloom.data.given_tokenizer import Unit, chosen_tokenizer
from seqloom.data.packing import require_documents
from seqloom.data.prepare import Corpus, prepare
from seqloom.data.random_texts import random_text
from seqloom.data.tokenizer import Tokenizer
from seqloom.training.objectives.config import ObjectiveConfig, Prepared

if TYPE_CHECKING:
    from seqloom.training.config import RunConfig

WINDOWS = ("division", "disjoint", "packed", "within_documents", "unwrap", "separator", "workers", "sources")
"""settings of the data that are about a plain text and its windows"""


class TextObjectiveConfig(ObjectiveConfig, ABC):
    """An objective that reads plain text; those that read examples override `read`."""

    @override
    def prepare(self, run: "RunConfig") -> Prepared:
        tokenizer, unit = chosen_tokenizer(run.data.tokenizer, run.data.vocab)
        if tokenizer is not None:
            run = self.with_vocab(run, tokenizer)
        self.require_device(run)
        corpus = self.read(run, tokenizer, unit)
        return Prepared(self.with_corpus(run, corpus), corpus)

    def read(self, run: "RunConfig", tokenizer: Tokenizer | None, unit: Unit) -> Corpus:
        """The tokenized text of a run, given its tokenizer, or the unit of the one that is trained on the text."""
        corpus = text_of(run.data, run.model.context, tokenizer, unit)
        if run.data.packed:
            require_documents(corpus.train, run.data.source)
        return corpus

    @override
    def plain_text(self, data: DataConfig) -> tuple[Corpus, Tokenizer | None] | None:
        tokenizer, unit = chosen_tokenizer(data.tokenizer, data.vocab)
        return text_of(data, 1, tokenizer, unit), tokenizer

    @override
    def build_on_random(self, model: ModelConfig, rows: int) -> Objective:
        return self.build(model, DataConfig(source="noise"), rows, random_text(model.context, model.vocab))


def text_of(data: DataConfig, context: int, tokenizer: Tokenizer | None, unit: Unit) -> Corpus:
    """The tokenized text of these settings, from a file of `seqloom data prepare` or from its documents."""
    if archive.is_archive(data.source):
        return archive.read(Path(data.source).expanduser(), archive.shaping(data, tokenizer))
    return prepare(
        data.sources or data.source,
        vocab=data.vocab,
        context=context,
        held_out=data.held_out,
        seed=data.seed,
        unwrap=data.unwrap,
        column=data.column,
        separator=data.separator,
        workers=data.workers,
        tokenizer=tokenizer,
        division=data.division,
        folds=data.folds,
        fold=data.fold,
        unit=unit,
    )

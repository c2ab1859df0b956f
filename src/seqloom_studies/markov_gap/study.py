"""The difference between the loss of models and that of the true Markov chain, up to orders above their context.

    gap = loss - truth,      truth = [-Σ ln p(letter | the chain)] / tokens + e        e: nats for the ends of documents
    e = h(1/1001) for a document of 1000 letters, as if it ended after each letter with probability 1/1001

    study = MarkovGap((contender("he"), contender("ngram/kneser_ney")), orders=(1, 2, 4, 8))

There is one chain per order, and a hidden one. Every model reads windows of `context` letters of the same text, and is
scored on each held-out letter that has `context` letters before it. A model whose context is at least the chain's order
can reach a gap of 0; on a chain of higher order it can only use the last `context` letters.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

from seqloom.core.seeds import require_count
from seqloom.data.corpora import chain_of
from seqloom.data.markov import Chain
from seqloom.data.prepare import Corpus
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.face import load
from seqloom.runs.layout import Run
from seqloom.studies.candidate import Candidate
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Row, RunCell, Study, folder_name, require_distinct, scoring
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, with_corpus, with_text
from seqloom.training.settings import resolve

BASE = (
    *("model.dropout=0", "model.dim=32", "model.ffn=128", "model.depth=2", "training.lr=0.003"),
    *("training.save_every=1000000",),
)
"""settings of all models that have layers, applied to the recipe tiny"""
PASSES = 1_000_000
"""the most batches of a model of counts, whose training ends earlier by itself"""
ROWS = 2048
"""windows in a batch of a model of counts"""


@final
class Gap(Row):
    """One model on one chain, with losses in nats per token; None where the training `failed`."""

    model: str
    source: str
    order: int | None
    """order of the chain; None for the hidden one"""
    variable: bool
    context: int
    """letters that the model reads before it predicts one"""
    seed: int
    batches: int
    """batches of the training"""
    tokens: int
    """tokens of the training text"""
    parameters: int
    table_bytes: int | None
    loss: float | None
    truth: float
    """the loss of the true chain on the same held-out text"""
    rate: float | None
    """the entropy rate of the chain in nats per letter; None for the hidden one"""
    gap: float | None
    failed: str | None = None


@final
@dataclass(frozen=True, kw_only=True)
class GapCell(RunCell):
    """A model trained on the text of one chain."""

    schema: ClassVar = Gap
    model: str
    source: str

    def read(self, run: Run, failed: str | None) -> list[Gap]:
        """One row: the loss on held-out letters, predicted from a full context, and that of the true chain."""
        source = chain_of(self.source)
        _, corpus = with_text(self.config)
        truth = true_loss(self.source, corpus)
        shared: dict[str, Any] = {
            "model": self.model,
            "source": self.source,
            "order": source.order if isinstance(source, Chain) else None,
            "variable": self.source.endswith(":variable"),
            "context": self.config.model.context,
            "seed": self.config.training.seed,
            "tokens": len(corpus.train),
            "truth": truth,
            "rate": source.entropy_rate if isinstance(source, Chain) else None,
        }
        if failed is not None:
            no_scores = {"batches": 0, "parameters": 0, "table_bytes": None, "loss": None, "gap": None}
            return [Gap(**shared, **no_scores, failed=failed)]
        model = load(run.folder)
        loss = score(model, corpus.held_out, stride=1, batch=ROWS).loss
        table_bytes = sum(table.nbytes for table in model.buffers()) if model.config.fits else None
        batches = sum(1 for _ in run.metrics.open(encoding="utf-8")) - 1
        parameters = sum(weights.numel() for weights in model.parameters())
        shared |= {"batches": batches, "parameters": parameters, "table_bytes": table_bytes}
        return [Gap(**shared, loss=loss, gap=loss - truth)]

    def text(self, rows: Sequence[Gap]) -> str:
        """The difference to the loss of the true chain."""
        (row,) = rows
        return row.failed or f"{row.gap:+.4f} nats from the true chain"


@final
@dataclass(frozen=True)
class MarkovGap:
    """The models, the orders of the chains, and the settings that all models share.

    ValueError for repeated values, chains that do not exist, and settings that do not fit.
    """

    models: Sequence[Candidate]
    orders: Sequence[int]
    states: int = 4
    context: int = 4
    hidden: int = 8
    """hidden states of the hidden chain, which has as many letters as the others; 0 for no hidden chain"""
    variable: bool = False
    batches: int = 2000
    batch: int = 128
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        require_distinct("markov-gap", {"models": [model.name for model in self.models], "orders": self.orders})
        require_count(self.seeds)
        for source in self.sources:
            chain_of(source)
        for model in self.models:
            self.config(model, self.sources[0], 0)

    @property
    def sources(self) -> list[str]:
        """The names of the chains: one per order, then the hidden one."""
        end = ":variable" if self.variable else ""
        visible = [f"markov:{self.states}:{order}:0{end}" for order in self.orders]
        return [*visible, *([f"hmm:{self.hidden}:{self.states}:0"] if self.hidden else [])]

    @property
    def study(self) -> Study:
        """The study. Its cells share only the folder, to which other models and orders may be added."""
        return Study("markov-gap", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """One stage with all cells, since no cell needs another."""
        cells: list[Cell] = []
        for source in self.sources:
            _, corpus = with_text(self.config(self.models[0], source, 0))
            cells += [self._cell(model, source, seed, corpus) for seed in range(self.seeds) for model in self.models]
        yield cells

    def config(self, model: Candidate, source: str, seed: int) -> RunConfig:
        """The settings of a model on the text of a chain."""
        batches = [f"training.batches={self.batches}", f"training.batch={self.batch}"]
        if model.counting:
            batches = [f"training.batches={PASSES}", f"training.batch={ROWS}"]
        shared = [*BASE, f"model.context={self.context}", *batches, f"training.seed={seed}", *self.changes]
        return resolve("tiny", ["data.unwrap=true", *model.fitting(shared), *model.changes], source)

    def _cell(self, model: Candidate, source: str, seed: int, corpus: Corpus) -> GapCell:
        config = with_corpus(self.config(model, source, seed), corpus)
        return GapCell(
            name=f"{folder_name(source)}/{model.name}/seed-{seed}",
            config=config,
            identity=identity(config, corpus),
            allow_drift=True,
            scoring=scoring(config, len(corpus.held_out)),
            model=model.name,
            source=source,
        )


def true_loss(source: str | Path, corpus: Corpus) -> float:
    """The loss of the true chain on the held-out text, in nats per token.

    The first `order` letters of a document are uniform.
    ValueError for a source that is not a chain.
    """
    chain = chain_of(source)
    if chain is None:
        raise ValueError(
            f"{source} is not written by a chain: give markov:STATES:ORDER:SEED or hmm:STATES:SYMBOLS:SEED"
        )
    tokens: Tokens = corpus.held_out
    nats = 0.0
    for first, end in zip(tokens.starts, tokens.ends, strict=True):
        nats -= chain.log_probability(corpus.tokenizer.decode(tokens.ids[first : end - 1].tolist()))
    if isinstance(chain, Chain):
        nats += tokens.documents * chain.order * math.log(chain.states)
    end_share = tokens.documents / len(tokens)
    return nats / len(tokens) - end_share * math.log(end_share) - (1 - end_share) * math.log1p(-end_share)

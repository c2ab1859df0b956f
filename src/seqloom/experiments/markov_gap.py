"""How far models stay from the loss of the true chain, as its order grows past their context.

    gap = loss - truth,      truth = [-Σ ln p(letter | the chain)] / tokens + e        e: of the ends of documents
    e = h(1/1001) of a document with 1000 letters: a chain that ends after each letter with chance 1/1001

    study = MarkovGap((contender("he"), contender("ngram/kneser_ney")), orders=(1, 2, 4, 8))

One chain per order, and one that is hidden; every model reads windows of `context` letters of the same text, and is
scored on each held-out letter after `context` others. A model that reads as many letters as the chain's order can reach
0; of a chain of a higher order it can reach what the last `context` letters tell.
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
from seqloom.experiments.contender import Contender
from seqloom.experiments.results import Results
from seqloom.experiments.study import Cell, Row, RunCell, Study, scoring
from seqloom.face import load
from seqloom.runs.layout import Run
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, of_corpus, with_text
from seqloom.training.settings import resolve

BASE = (
    *("model.dropout=0", "model.dim=32", "model.ffn=128", "model.depth=2", "training.lr=0.003"),
    *("training.save_every=1000000",),
)
"""settings of all models that have layers, on top of the recipe tiny"""
PASSES = 1_000_000
"""batches at most of a model that counts, which ends by itself"""
ROWS = 2048
"""windows in a batch of a model that counts"""


@final
class Gap(Row):
    """One model on one chain; losses in nats per token, None where the training `failed`."""

    model: str
    source: str
    order: int | None
    """of the chain; None of a hidden one"""
    variable: bool
    context: int
    """letters that the model reads before it predicts one"""
    seed: int
    batches: int
    """batches that it was trained for"""
    tokens: int
    """tokens of the training text"""
    parameters: int
    table_bytes: int | None
    loss: float | None
    truth: float
    """of the true chain, on the same held-out text"""
    rate: float | None
    """the entropy rate of the chain, nats per letter"""
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
        """One row: the loss on held-out letters, each predicted from a full context, and the true loss."""
        source = chain_of(self.source)
        _, corpus = with_text(self.config)
        truth = true_loss(self.source, corpus)
        about: dict[str, Any] = {
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
            unknown = {"batches": 0, "parameters": 0, "table_bytes": None, "loss": None, "gap": None}
            return [Gap(**about, **unknown, failed=failed)]
        model = load(run.folder)
        loss = score(model, corpus.held, stride=1, batch=ROWS).loss
        counted = sum(table.nbytes for table in model.buffers()) if model.config.fits else None
        steps = sum(1 for _ in run.metrics.open(encoding="utf-8")) - 1
        numbers = sum(weights.numel() for weights in model.parameters())
        about |= {"batches": steps, "parameters": numbers, "table_bytes": counted}
        return [Gap(**about, loss=loss, gap=loss - truth)]

    def text(self, rows: Sequence[Gap]) -> str:
        """How far it stays from the truth."""
        (row,) = rows
        return row.failed or f"{row.gap:+.4f} nats from the true chain"


@final
@dataclass(frozen=True)
class MarkovGap:
    """The models, the orders of the chains, and what all models share.

    ValueError, in one line, for values that repeat, chains that there are not, and settings that do not fit.
    """

    models: Sequence[Contender]
    orders: Sequence[int]
    states: int = 4
    context: int = 4
    hidden: int = 8
    """hidden states of the chain that is hidden, over as many letters as the others; 0 for none"""
    variable: bool = False
    batches: int = 2000
    batch: int = 128
    seeds: int = 1
    changes: Sequence[str] = ()

    def __post_init__(self) -> None:
        names = [model.name for model in self.models]
        for what, given in (("models", names), ("orders", self.orders)):
            if not given or len(set(given)) < len(given):
                raise ValueError(f"markov-gap needs {what} that differ, not {', '.join(map(str, given)) or 'none'}")
        require_count(self.seeds)
        for source in self.sources:
            chain_of(source)
        for model in self.models:
            self.config(model, self.sources[0], 0)

    @property
    def sources(self) -> list[str]:
        """The chains: one per order, then the hidden one."""
        end = ":variable" if self.variable else ""
        visible = [f"markov:{self.states}:{order}:0{end}" for order in self.orders]
        return [*visible, *([f"hmm:{self.hidden}:{self.states}:0"] if self.hidden else [])]

    @property
    def study(self) -> Study:
        """Its cells share nothing but the folder: other models and orders may be added to it."""
        return Study("markov-gap", {}, self.stages)

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """All cells, none of which needs another."""
        cells: list[Cell] = []
        for source in self.sources:
            _, corpus = with_text(self.config(self.models[0], source, 0))
            cells += [self._cell(model, source, seed, corpus) for seed in range(self.seeds) for model in self.models]
        yield cells

    def config(self, model: Contender, source: str, seed: int) -> RunConfig:
        """The settings of a model on the text of a chain."""
        steps = [f"training.batches={self.batches}", f"training.batch={self.batch}"]
        if model.counting:
            steps = [f"training.batches={PASSES}", f"training.batch={ROWS}"]
        shared = [*BASE, f"model.context={self.context}", *steps, f"training.seed={seed}", *self.changes]
        return resolve("tiny", [*model.fitting(shared), *model.changes], source)

    def _cell(self, model: Contender, source: str, seed: int, corpus: Corpus) -> GapCell:
        config = of_corpus(self.config(model, source, seed), corpus)
        return GapCell(
            name=f"{source.replace(':', '-')}/{model.name}/seed-{seed}",
            config=config,
            identity=identity(config, corpus),
            allow_drift=True,
            scoring=scoring(config, len(corpus.held)),
            model=model.name,
            source=source,
        )


def true_loss(source: str | Path, corpus: Corpus) -> float:
    """Nats per token of the true chain on the held-out text; the first letters of a chain's order are uniform.

    ValueError for a source that no chain writes.
    """
    chain = chain_of(source)
    if chain is None:
        raise ValueError(
            f"{source} is not written by a chain: give markov:STATES:ORDER:SEED or hmm:STATES:SYMBOLS:SEED"
        )
    held: Tokens = corpus.held
    nats = 0.0
    for first, end in zip(held.starts, held.ends, strict=True):
        nats -= chain.log_probability(corpus.tokenizer.decode(held.ids[first : end - 1].tolist()))
    if isinstance(chain, Chain):
        nats += held.documents * chain.order * math.log(chain.states)
    ends = held.documents / len(held)
    return nats / len(held) - ends * math.log(ends) - (1 - ends) * math.log1p(-ends)

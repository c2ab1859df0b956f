"""What a comparison keeps: one JSON object with every number, text and picture that a report shows.

`comparison.json`, format 2: what was compared (preset, changes, sizes, text), the columns, the baseline that
differences are to, whether they are paired by seed, and for each contender its row, its runs, the cost by position,
samples, views. Curves lie in the runs' metrics.jsonl.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from seqloom.analysis.match import Equal
from seqloom.core.model import Model
from seqloom.core.statistics import Difference, differences, mean, mean_of
from seqloom.data.prepare import Corpus
from seqloom.evaluation.scores import unigram_entropy
from seqloom.evaluation.stories import floor, judged
from seqloom.experiments.columns import OPTIONAL, STATISTICS, described
from seqloom.experiments.contenders import Contender
from seqloom.experiments.pictures import sample, views
from seqloom.experiments.weigh import Clocks, Row, clocks, last_tenth, prices, quality
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig
from seqloom.training.train import Outcome

FORMAT = 2
STORIES = 32
"""texts that a model writes to be judged by the grammar"""
TOKENS = 200
"""of each of them, at most"""


@final
@dataclass
class Trained:
    """A contender and its runs so far; of the models only that of the first seed is held."""

    contender: Contender
    config: RunConfig
    out: Path
    runs: list[str] = field(default_factory=list)
    qualities: list[Row] = field(default_factory=list)
    by_position: list[list[float]] = field(default_factory=list)
    orders: set[int] = field(default_factory=set)
    """seeds of the order of the batches"""
    model: Model | None = None

    def add(self, outcome: Outcome, config: RunConfig) -> None:
        """Takes in a run that was trained to its end by these settings."""
        self.runs.append(outcome.run.folder.relative_to(self.out).as_posix())
        self.qualities.append(quality(outcome.run))
        self.orders.add(config.data.seed)
        held = [row for row in read(outcome.run.metrics) if "held_out" in row][-1]
        if "by_position" in held:
            self.by_position.append([round(float(cost), 5) for cost in held["by_position"]])
        if self.model is None:
            self.model = outcome.model

    @property
    def held_out(self) -> list[float]:
        """The held-out cost of each run."""
        return [float(row["held-out cost"]) for row in self.qualities]


def kept(
    trained: Sequence[Trained],
    corpus: Corpus,
    preset: str,
    changes: Sequence[str],
    equal: Equal | None,
    prompts: Sequence[str],
) -> dict[str, Any]:
    """All that is known of trained contenders, the best held-out cost first."""
    config = trained[0].config
    generates = all(_model(each).traits.generates for each in trained)
    least = floor(corpus.held, corpus.tokenizer) if generates else None  # a bound of predictions from the left
    reference = baseline(trained).contender.name
    pairs = paired(trained)
    runs = {each.contender.name: dict(enumerate(each.held_out)) for each in trained}
    apart = differences(runs, dict.fromkeys(runs, reference), paired=pairs)
    timed = clocks({each.contender.name: (_model(each), each.config) for each in trained})
    found = []
    for each in trained:
        name = each.contender.name
        grammar = _grammar(_model(each), corpus) if least is not None else {}
        statistics = _statistics(each.held_out, apart.get(name))
        found.append(_contender(each, timed[name], statistics, grammar, corpus, prompts))
    found.sort(key=lambda one: float(one["row"]["held-out cost"]))
    silent = {name for name in OPTIONAL if all(one["row"][name] is None for one in found)}
    names = [name for name in found[0]["row"] if name not in silent]
    return {
        "format": FORMAT,
        "preset": preset,
        "changes": list(changes),
        "seeds": len(trained[0].runs),
        "batches": config.training.batches,
        "batch": config.training.batch,
        "context": config.model.context,
        "stretch": last_tenth(config.training.batches),
        "baseline": reference,
        "paired": pairs,
        "text": {
            "description": corpus.description.replace(config.data.source, Path(config.data.source).name, 1),
            "identity": corpus.identity,
            "held_out_tokens": len(corpus.held),
            "held_out_documents": corpus.held.documents,
            "unigram": unigram_entropy(corpus.held),
            "floor": least,
        },
        "columns": described(names),
        "equal": equal,
        "contenders": found,
    }


def paired(trained: Sequence[Trained]) -> bool:
    """Whether runs of the same seed are pairs: where seeds differ in the order of the batches too."""
    return any(len(each.orders) > 1 for each in trained)


def baseline(trained: Sequence[Trained]) -> Trained:
    """What others are compared with: the first contender whose layers all have self-attention, or the first at all."""
    attention = (each for each in trained if {mixer.kind for mixer in each.config.model.mixers} == {"attention"})
    return next(attention, trained[0])


def _statistics(held_out: Sequence[float], apart: Difference | None) -> Row:
    """The columns of `STATISTICS`; of the baseline, and after one seed, some are None."""
    estimate = apart and apart.estimate
    values = (
        mean_of(held_out).half,
        estimate and estimate.mean,
        estimate and estimate.half,
        apart and apart.adjusted,
        apart and apart.smallest,
    )
    return dict(zip(STATISTICS, values, strict=True))


def _contender(
    each: Trained, timed: Clocks, statistics: Row, grammar: Row, corpus: Corpus, prompts: Sequence[str]
) -> dict[str, Any]:
    model, config = _model(each), each.config
    rows = each.qualities
    written = prompts if model.traits.generates else ()
    mixers = {mixer.kind for mixer in config.model.mixers}
    return {
        "name": each.contender.name,
        "kind": " + ".join(sorted(mixers)),
        "beside": each.contender.beside,
        "matched": each.contender.matched,
        "row": {
            **{name: None if rows[0][name] is None else mean([row[name] for row in rows]) for name in rows[0]},
            **statistics,
            **prices(model),
            **timed.row(),
            **grammar,
        },
        "spread": {name: [row[name] for row in rows] for name in rows[0] if rows[0][name] is not None},
        "runs": each.runs,
        "by_position": each.by_position,
        "operations_a_batch": model.cost(config.model.context).total * config.training.batch,
        "tokens_a_batch": config.model.context * config.training.batch,
        "seconds_a_batch": timed.step,
        "samples": [sample(model, corpus.tokenizer, prompt, seed) for prompt in written for seed in (0, 1)],
        "views": views(model, corpus.tokenizer, _passage(corpus, config.model.context)),
    }


def _passage(corpus: Corpus, tokens: int) -> list[int]:
    """Held-out ids from the middle of the text: documents begin with titles in capitals."""
    first = max(0, min(len(corpus.held.ids) // 2, len(corpus.held.ids) - tokens))
    found: list[int] = corpus.held.ids[first : first + tokens].tolist()
    return found


def _grammar(model: Model, corpus: Corpus) -> Row:
    """The shares of sampled sentences that are of the grammar, and that agree with their story so far."""
    model.tokenizer = corpus.tokenizer
    said = judged(model, stories=STORIES, tokens=TOKENS, top_p=0.9)
    written = max(said.written, 1)
    return {"grammatical": said.grammatical / written, "agreeing": said.agreeing / written}


def _model(each: Trained) -> Model:
    assert each.model is not None, f"{each.contender.name} was not trained"
    return each.model

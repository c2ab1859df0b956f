"""The comparison as a study: the next runs follow from the rows so far.

    forms of attention → rates of the models of decisions → the same rates with all batches, for two models
    → their result runs, fold by fold → the slope → rates and result runs of the further models

Runs that choose train on all folds and are scored on the validation text alone; a result run trains on nine folds and
is tested on its own. A run that has a row in `finished` is not trained again. The next cells depend on the rows alone,
so that a study stopped on one machine can continue on another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, Literal, final

from seqloom.analysis.match import match
from seqloom.analysis.origin import machine
from seqloom.data.prepare import Corpus
from seqloom.data.windows import Windows
from seqloom.runs.layout import identity as digest
from seqloom.studies.candidate import Candidate
from seqloom.studies.decoding import Decoding
from seqloom.studies.race import Race
from seqloom.studies.results import Results
from seqloom.studies.study import Cell, Study, scoring
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, with_text
from seqloom.training.settings import resolve
from seqloom_studies.board import lineup
from seqloom_studies.board.cell import BoardCell
from seqloom_studies.board.lineup import DECIDED, EXPLORATORY, FORMS, MIDDLE, RATES, Text
from seqloom_studies.board.rows import TIMES, BoardRow, row_of

TOKENS = (512, 2048)
"""lengths of the texts after which one more token is timed"""
CURVE = 250
"""batches between the scores on the validation text in the result run on the first fold"""
Purpose = Literal["rate", "control"]


@final
@dataclass(frozen=True)
class Board:
    """The study of one text. `changes`: settings of all models; `finished`: rows of earlier runs, by digest.

    ValueError where the text is too short for its batches, or cannot be divided by author.
    """

    source: str
    changes: Sequence[str] = ()
    finished: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    text: Text = lineup.TEXTS["books"]
    _corpora: dict[int | None, Corpus] = field(default_factory=dict, repr=False, compare=False)
    _sized: dict[tuple[str, ...], RunConfig] = field(default_factory=dict, repr=False, compare=False)

    @property
    def study(self) -> Study:
        """The study; its folder is bound to the settings and the text that all runs share."""
        return Study("board", self.shared_settings, self.stages)

    @property
    def race(self) -> Study:
        """The timings, in the same folder: a race of training steps, then of tokens. They need an idle machine."""

        def stages(results: Results) -> Iterator[Sequence[Cell]]:
            machine_name = machine()
            models = {name: self.settings(contender) for name, contender in self.models(results).items()}
            yield [
                Race(f"{TIMES}/steps", models, machine_name),
                *(
                    Decoding(f"{TIMES}/{name}-{tokens}", name, config, tokens, machine_name)
                    for name, config in models.items()
                    for tokens in TOKENS
                ),
            ]

        return Study("board", self.shared_settings, stages)

    @cached_property
    def shared_settings(self) -> dict[str, Any]:
        """The settings that all runs share, and the identity of the text of all folds."""
        shared = self.host.identity(self.corpus(None).identity)
        del shared["model"]["mixer"], shared["training"]["seed"], shared["training"]["lr"], shared["data"]["seed"]
        return shared

    @cached_property
    def host(self) -> RunConfig:
        """The settings of the recipe with this text. ValueError where the training text is too short."""
        config = resolve(lineup.RECIPE, self._changes, self.source)
        training, context = config.training, config.model.context
        train = self.corpus(None).train
        available = Windows(train, context, 0, disjoint=config.data.disjoint).starts
        needed = training.batches * training.batch
        if available < needed:
            raise ValueError(
                f"{self.source}: the training texts have {available:,} windows of {context:,} tokens, and "
                f"{training.batches:,} batches of {training.batch:,} read {needed:,}, none twice: add text, or choose "
                "fewer training.batches"
            )
        return config

    @property
    def _changes(self) -> list[str]:
        return [*self.text.changes, f"data.folds={lineup.FOLDS}", *self.changes]

    def corpus(self, fold: int | None) -> Corpus:
        """The text with this fold as its test part; None: all folds are trained on."""
        if fold not in self._corpora:
            changes = [*self._changes, *([] if fold is None else [f"data.fold={fold}"])]
            _, self._corpora[fold] = with_text(resolve(lineup.RECIPE, changes, self.source))
        return self._corpora[fold]

    def settings(self, contender: Candidate) -> RunConfig:
        """The settings of a model, whose parameters equal those of Llama attention by the feed-forward's width."""
        if contender.changes not in self._sized:
            vocab = {"vocab": self.corpus(None).tokenizer.vocab}
            config = resolve(lineup.RECIPE, [*self._changes, *contender.changes], self.source)
            host = self.host.layered_model.model_copy(update=vocab)
            model = match(config.layered_model.model_copy(update=vocab), host, equal="params", by="ffn").config
            self._sized[contender.changes] = config.model_copy(update={"model": model})
        return self._sized[contender.changes]

    def models(self, results: Results) -> dict[str, Candidate]:
        """All models by name, those of decisions first. While the baseline's form is not chosen it is Llama's.

        Where Llama's form was chosen, the baseline is Llama attention, which is then no further model.
        """
        chosen = self.form(results)
        models = (*lineup.decision_models(chosen or lineup.DEFAULT_FORM), *EXPLORATORY)
        left_out = lineup.PLAIN if chosen == lineup.DEFAULT_FORM else None
        return {contender.name: contender for contender in models if contender.name != left_out}

    def stages(self, results: Results) -> Iterator[Sequence[Cell]]:
        """Stages of runs; the next stage follows from the rows. A fold of all models comes before the next fold."""
        forms = [self.form_cell(form) for form in FORMS]
        yield self._missing(forms, results)
        if any(cell.name in results.failed for cell in forms):
            return  # without a baseline there is nothing to compare with
        models = self.models(results)
        decided = [model for name, model in models.items() if name in DECIDED]
        yield from self._rate_stages(decided, "rate", results)
        yield from self._rate_stages([models[name] for name in lineup.CONTROLLED], "control", results)
        yield from self._result_stages(decided, results)
        slope = self._with_rates([models[name] for name in lineup.SLOPE], results)
        yield self._missing(
            [
                self.tested_cell(model, fold, rate, batches)
                for batches in lineup.SLOPE_BATCHES
                for model, rate in slope
                for fold in range(lineup.FEW_FOLDS)
            ],
            results,
        )
        yield from self._rate_stages(EXPLORATORY, "rate", results)
        yield from self._result_stages(EXPLORATORY, results)

    def _rate_stages(self, models: Sequence[Candidate], use: Purpose, results: Results) -> Iterator[Sequence[Cell]]:
        """Runs at all rates, then at further ones until the best lies inside (`lineup.rates_to_try`)."""
        while True:
            cells = [cell for model in models for cell in self._next_rates(model, use, results)]
            yield cells
            if all(self._is_missing(cell, results) for cell in cells):
                return  # nothing is missing, or no cell was run: the stages are only being listed

    def _next_rates(self, model: Candidate, use: Purpose, results: Results) -> list[BoardCell]:
        """The runs that are needed before the rate is chosen, or before it is known that one more is needed."""
        first = self._missing([self.rate_cell(model, rate, use) for rate in RATES], results)
        if first:
            return first
        losses = self._losses(model, use, results)
        further = lineup.rates_to_try(list(losses), _lowest(losses))
        return self._missing([self.rate_cell(model, rate, use) for rate in further], results)

    def _result_stages(self, models: Sequence[Candidate], results: Results) -> Iterator[Sequence[Cell]]:
        """A stage for each fold."""
        for fold in range(max(lineup.folds(model.name) for model in models)):
            with_rates = self._with_rates(models, results)
            cells = [
                self.tested_cell(model, fold, rate) for model, rate in with_rates if fold < lineup.folds(model.name)
            ]
            yield self._missing(cells, results)

    def _with_rates(self, models: Sequence[Candidate], results: Results) -> list[tuple[Candidate, float]]:
        """Each model with its rate; in a plan, before a rate is known, the middle one.

        A model is left out where a run failed that its rate depends on.
        """
        pairs = []
        for model in models:
            rate = self.rate(model, results)
            if rate is not None:
                pairs.append((model, rate))
            elif not any(self.rate_cell(model, first, "rate").name in results.failed for first in RATES):
                pairs.append((model, MIDDLE))
        return pairs

    def form(self, results: Results) -> Candidate | None:
        """The form of attention with the lowest validation loss; None while a form has no row."""
        losses = {}
        for form in FORMS:
            row = self.row(self.form_cell(form), results)
            if row is None:
                return None
            losses[form] = inf if row.validation is None else row.validation
        return min(FORMS, key=lambda form: losses[form])

    def rate(self, model: Candidate, results: Results, use: Purpose = "rate") -> float | None:
        """The rate with the lowest validation loss; None while a run at one of the first rates has no row."""
        losses = self._losses(model, use, results)
        return _lowest(losses) if losses.keys() >= set(RATES) else None

    def _losses(self, model: Candidate, use: Purpose, results: Results) -> dict[float, float]:
        """The validation loss by rate, infinite where it became NaN, of the runs that have a row."""
        ends = [RATES[0] / 2**power for power in range(1, lineup.FURTHER + 1)]
        ends += [RATES[-1] * 2**power for power in range(1, lineup.FURTHER + 1)]
        rows = {rate: self.row(self.rate_cell(model, rate, use), results) for rate in (*RATES, *ends)}
        return {rate: inf if row.validation is None else row.validation for rate, row in rows.items() if row}

    def row(self, cell: BoardCell, results: Results) -> BoardRow | None:
        """The row of a run, from this folder or from `finished`; None for a run that is not done."""
        rows = [row for row in results.rows.get(cell.name, []) if isinstance(row, BoardRow)]
        if rows:
            return rows[0]
        line = self.finished.get(cell.digest)
        return None if line is None else row_of(line)

    def _missing(self, cells: Sequence[BoardCell], results: Results) -> list[BoardCell]:
        return [cell for cell in cells if self._is_missing(cell, results)]

    def _is_missing(self, cell: Cell, results: Results) -> bool:
        """Whether a run has no row and did not fail."""
        assert isinstance(cell, BoardCell)
        return self.row(cell, results) is None and cell.name not in results.failed

    def form_cell(self, form: Candidate) -> BoardCell:
        """The run that scores a form of attention on the validation text."""
        return self._cell(form, "form", MIDDLE, 0, None, self._choosing)

    def rate_cell(self, model: Candidate, rate: float, use: Purpose) -> BoardCell:
        """The run that scores a rate on the validation text; a control has the batches of a result."""
        batches = self._choosing if use == "rate" else self.host.training.batches
        return self._cell(model, use, rate, 0, None, batches)

    def tested_cell(self, model: Candidate, fold: int, rate: float, batches: int | None = None) -> BoardCell:
        """The run that is tested on a fold, after the batches of a result unless others are given."""
        use: Literal["slope", "result"] = "result" if batches is None else "slope"
        return self._cell(model, use, rate, lineup.seed(fold), fold, batches or self.host.training.batches)

    @property
    def _choosing(self) -> int:
        """The batches of a run that chooses; all of a result where that has fewer."""
        return min(lineup.CHOOSING, self.host.training.batches)

    def _cell(
        self,
        model: Candidate,
        use: Literal["form", "rate", "control", "result", "slope"],
        rate: float,
        seed: int,
        fold: int | None,
        batches: int,
    ) -> BoardCell:
        settings = self.settings(model)
        corpus = self.corpus(fold)
        schedule, recipe_batches = settings.training.schedule, self.host.training.batches
        warmup = max(1, round(batches * schedule.warmup_steps(recipe_batches) / recipe_batches))
        training = settings.training.model_copy(
            update={
                "lr": rate,
                "seed": seed,
                "batches": batches,
                "schedule": schedule.model_copy(update={"warmup": warmup}),
                "evaluate_every": CURVE if use == "result" and fold == 0 else 0,
            }
        )
        config = settings.model_copy(
            update={
                "model": settings.layered_model.model_copy(update={"vocab": corpus.tokenizer.vocab}),
                "data": settings.data.model_copy(update={"seed": seed, "fold": fold}),
                "training": training,
            }
        )
        test = 0 if corpus.test is None else len(corpus.test)
        part = f"{use}/lr-{rate:g}" if fold is None else f"{use}/fold-{fold}-lr-{rate:g}"
        return BoardCell(
            name=f"{model.name}/{part}" + (f"-batches-{batches}" if use == "slope" else ""),
            config=config,
            identity=identity(config, corpus),
            scoring=scoring(config, len(corpus.held_out)) + 2 * scoring(config, test),
            contender=model.name,
            purpose=use,
            text_name=self.text.name,
            board=digest(self.shared_settings)[:16],
        )


def _lowest(losses: Mapping[float, float]) -> float:
    """The rate with the lowest loss; of equal ones the lowest rate."""
    return min(losses, key=lambda rate: (losses[rate], rate))

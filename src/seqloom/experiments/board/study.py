"""The board as a study: the next runs follow from the rows so far.

    a contender: seed 0 at three rates → further rates by factors of 2 until the best is neither first nor last
                 → more seeds at the best rate

Contenders of decisions come first. A run that has a row in `finished` is not trained again. The next cells depend on
the rows alone, so that a study stopped on one machine can continue on another.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, final

from seqloom.analysis.match import match
from seqloom.analysis.origin import machine
from seqloom.core.layered import LayeredConfig
from seqloom.data.prepare import Corpus
from seqloom.data.windows import Windows
from seqloom.experiments.board.cell import BoardCell
from seqloom.experiments.board.lineup import BELOW, BESIDE, DECIDED, RATES, ROWS, seeds
from seqloom.experiments.board.rows import TIMES, BoardRow, row_of
from seqloom.experiments.contender import Contender
from seqloom.experiments.decoding import Decoding
from seqloom.experiments.race import Race
from seqloom.experiments.results import Results
from seqloom.experiments.study import Cell, Study, scoring
from seqloom.runs.layout import identity as digest
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, with_text
from seqloom.training.settings import resolve

RECIPE = "board/small"
FURTHEST = 6
"""the most doublings or halvings beyond the first rates"""
TOKENS = (512, 2048)
"""lengths of the texts after which one more token is timed"""
LADDER = tuple(RATES[0] * 2.0**power for power in range(-FURTHEST, len(RATES) + FURTHEST))
"""all rates that a row may be trained at"""


@final
@dataclass(frozen=True)
class Board:
    """The study. `changes`: settings of all models; `finished`: rows of earlier runs, by digest.

    ValueError where the text is too short for its batches, or cannot be divided by author.
    """

    source: str
    changes: Sequence[str] = ()
    finished: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def study(self) -> Study:
        """The study; its folder is bound to the settings and the text that all runs share."""
        return Study("board", self.shared, self.stages)

    @property
    def race(self) -> Study:
        """The timings, in the same folder: a race of training steps, then of tokens. They need an idle machine."""

        def stages(results: Results) -> Iterator[list[Cell]]:
            machine_name = machine()
            models = {name: config for name, config in self.models.items() if name not in BELOW}
            yield [
                Race(f"{TIMES}/steps", models, machine_name),
                *(
                    Decoding(f"{TIMES}/{name}-{tokens}", name, config, tokens, machine_name)
                    for name, config in models.items()
                    for tokens in TOKENS
                ),
            ]

        return Study("board", self.shared, stages)

    @cached_property
    def shared(self) -> dict[str, Any]:
        """The settings that all runs share, and the identity of the text."""
        shared = self.host.identity(self.corpus.identity)
        del shared["model"]["mixer"], shared["training"]["seed"], shared["training"]["lr"], shared["data"]["seed"]
        return shared

    @cached_property
    def _prepared(self) -> tuple[RunConfig, Corpus]:
        """The settings of the host and the text. ValueError where the text is too short."""
        config, corpus = with_text(resolve(RECIPE, self.changes, self.source))
        training = config.training
        available = Windows(corpus.train, config.model.context, 0, disjoint=config.data.disjoint).starts
        needed = training.batches * training.batch
        if available < needed:
            raise ValueError(
                f"{self.source}: the training books have {available:,} windows of {config.model.context:,} tokens, and "
                f"{training.batches:,} batches of {training.batch:,} read {needed:,}, none twice: add text, or choose "
                "fewer training.batches"
            )
        return config, corpus

    @property
    def host(self) -> RunConfig:
        """The settings of the host with attention, with the vocabulary of the text."""
        return self._prepared[0]

    @property
    def corpus(self) -> Corpus:
        """The text, divided by author."""
        return self._prepared[1]

    @cached_property
    def models(self) -> dict[str, RunConfig]:
        """The settings of every contender; all but those in `BELOW` have equal parameters."""
        models = {}
        for contender in (*ROWS, *BESIDE, *(Contender(name, (f"model.mixer.kind={name}",)) for name in BELOW)):
            config = resolve(RECIPE, [*self.changes, *contender.changes], self.source)
            model: LayeredConfig = config.layered.model_copy(update={"vocab": self.host.layered.vocab})
            if contender.name not in BELOW:
                model = match(model, self.host.layered, equal="params", by="ffn").config
            models[contender.name] = config.model_copy(update={"model": model})
        return models

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """Stages of runs; the next stage follows from the rows. A seed of all contenders comes before the next seed."""
        others = [contender.name for contender in ROWS if contender.name not in DECIDED]
        decided = [contender.name for contender in ROWS if contender.name in DECIDED]
        for group in (decided, others, [contender.name for contender in BESIDE], list(BELOW)):
            yield from self._stages_of(group, results)

    def row(self, cell: BoardCell, results: Results) -> BoardRow | None:
        """The row of a run, from this folder or from `finished`; None for a run that is not done."""
        rows = [row for row in results.rows.get(cell.name, []) if isinstance(row, BoardRow)]
        if rows:
            return rows[0]
        line = self.finished.get(cell.digest)
        return None if line is None else row_of(line)

    def best(self, name: str, results: Results) -> float | None:
        """The rate with the lowest validation loss so far; None while a run at one of the first rates has no row."""
        rows = {rate: self.row(self.cell(name, rate, 0), results) for rate in LADDER}
        losses = {rate: inf if row.validation is None else row.validation for rate, row in rows.items() if row}
        if not losses.keys() >= set(RATES):
            return None
        return min(losses, key=lambda rate: (losses[rate], rate))

    def _stages_of(self, names: Sequence[str], results: Results) -> Iterator[list[Cell]]:
        """The stages of these contenders: runs of seed 0 until the rates are chosen, then one stage for each seed."""
        while cells := [cell for name in names for cell in self._rate_cells(name, results)]:
            yield list(cells)
            if all(self._is_missing(cell, results) for cell in cells):
                break  # no cell was run: the stages are only being listed
        seed_cells = [cell for name in names for cell in self._seed_cells(name, results)]
        for seed in sorted({cell.config.training.seed for cell in seed_cells}):
            yield [cell for cell in seed_cells if cell.config.training.seed == seed]

    def _rate_cells(self, name: str, results: Results) -> list[BoardCell]:
        """The runs of seed 0 that are still needed to choose the rate."""
        if name in BELOW:
            return []
        first = [self.cell(name, rate, 0) for rate in RATES]
        missing = [cell for cell in first if self._is_missing(cell, results)]
        if missing:
            return missing
        best = self.best(name, results)
        if best is None:
            return []
        neighbors = [self.cell(name, rate, 0) for rate in (best / 2, best * 2) if rate in LADDER]
        return [cell for cell in neighbors if self._is_missing(cell, results)]

    def _seed_cells(self, name: str, results: Results) -> list[BoardCell]:
        """The runs of all seeds at the best rate; for a plan, at the middle rate while the best is not known."""
        rate_source = BELOW.get(name, name)
        rate = self.best(rate_source, results)
        if rate is None and any(self.cell(rate_source, candidate, 0).name in results.failed for candidate in RATES):
            return []
        rate = RATES[1] if rate is None else rate
        numbers = range(1) if name in BELOW else range(1, seeds(name))
        cells = [self.cell(name, rate, seed) for seed in numbers]
        return [cell for cell in cells if self._is_missing(cell, results)]

    def _is_missing(self, cell: BoardCell, results: Results) -> bool:
        """Whether a run has no row and did not fail."""
        return self.row(cell, results) is None and cell.name not in results.failed

    def cell(self, name: str, lr: float, seed: int) -> BoardCell:
        """The cell that trains contender `name` at the rate `lr` from a seed."""
        config = self.models[name]
        config = config.model_copy(
            update={
                "data": config.data.model_copy(update={"seed": seed}),
                "training": config.training.model_copy(update={"lr": lr, "seed": seed}),
            }
        )
        return BoardCell(
            name=f"{name}/seed-{seed}-lr-{lr:g}",
            config=config,
            identity=identity(config, self.corpus),
            scoring=scoring(config, len(self.corpus.held_out)) + self._test_scoring(config),
            contender=name,
            board=digest(self.shared)[:16],
        )

    def _test_scoring(self, config: RunConfig) -> float:
        """The training steps that take as long as reading the test books twice."""
        assert self.corpus.test is not None
        return 2 * scoring(config, len(self.corpus.test))

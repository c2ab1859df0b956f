"""Compares models that share preset, text and order of batches, and differ in their mixer alone.

    study = Compare((contender("attention:heads=32"), contender("she")), "paper/small")
    comparison = compare(study, Path("runs/compare"))

A contender has one run per seed, in OUT/NAME/seed-N. The seed draws initial weights and dropout; the text, its held-out
part and the order of the batches are the same for all runs. Times, sizes of states, samples and views of the trained
models are measured after training. Probes train small models with the same mixers, each on one synthetic task. The
summary is OUT/comparison.json, for `report`. A NaN loss of a contender does not abort the other runs.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

from seqloom.analysis.match import By, Equal
from seqloom.analysis.origin import machine
from seqloom.core.seeds import require_count
from seqloom.data.prepare import Corpus
from seqloom.data.probes import probe
from seqloom.data.tokenizer import require_utf8
from seqloom.evaluation.stories import floor
from seqloom.studies.candidate_cell import CandidateCell, trained_run
from seqloom.studies.candidates import Candidate, Size, Sizing, resize_candidate
from seqloom.studies.decoding import Decoding, require_lengths
from seqloom.studies.pictures import tokens_of_views
from seqloom.studies.race import Race
from seqloom.studies.recall import Recall
from seqloom.studies.results import Results
from seqloom.studies.samples import SamplesCell
from seqloom.studies.study import Cell, Study, scoring
from seqloom.training.config import RunConfig
from seqloom.training.preparation import identity, with_corpus, with_text
from seqloom.training.settings import resolve
from seqloom.training.stages import LARGEST

PROMPT = "Once upon a time"
PROBE_BATCHES = 1000
"""default limit of the training batches of a probe"""
DIM, DEPTH, DIFFICULTY, LR = 64, 2, 1, 1e-3
"""width, layers, difficulty and learning rate of the models that are trained on probes"""
SHARED = ("training.device=", "backends.")
"""beginnings of the settings that a comparison passes on to its probes; all others concern its text or its sizes"""


@final
@dataclass(frozen=True)
class Match:
    """Adds, for each contender, the `peer` resized to equal it in a quantity."""

    equal: Equal
    peer: Candidate
    by: By | None = None


@final
@dataclass(frozen=True)
class Compare:
    """What is compared.

    Raises ValueError, before anything is trained, for repeated names and settings that do not fit.
    """

    contenders: Sequence[Candidate]
    preset: str
    changes: Sequence[str] = ()
    source: str | None = None
    seeds: int = 1
    match: Match | None = None
    prompts: Sequence[str] = (PROMPT,)
    lengths: Sequence[int] = ()
    """lengths of the texts after which one more token is timed"""
    probes: Sequence[str] = ()
    probe_batches: int = PROBE_BATCHES
    left_out: Mapping[str, str] | None = None
    """with `--all`: the reasons why mixers do not fit this size, by mixer"""
    probes_left_out: dict[tuple[str, str], str] = field(default_factory=dict, compare=False)
    """the reasons why mixers do not fit a probe, by (mixer, probe); the grid of the probes fills it in"""
    _configs: dict[Candidate, RunConfig] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names = [contender.name for contender in self.contenders]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"a comparison needs contenders of different names, not {', '.join(names) or 'none'}")
        require_count(self.seeds)
        require_lengths(self.lengths)
        for prompt in self.prompts:
            require_utf8(prompt, f"the prompt {prompt!r}")
        for title in self.probes:
            probe(title, DIFFICULTY)
        if len(set(self.probes)) < len(self.probes):
            raise ValueError(f"name each probe once, not {', '.join(self.probes)}")
        if not 1 <= self.probe_batches <= LARGEST:
            raise ValueError(f"--probe-batches must be at least 1 and at most {LARGEST:,}, not {self.probe_batches}")

    @property
    def study(self) -> Study:
        """The study; its folder is bound to the settings that all contenders share."""
        shared = self.base.identity(self.corpus.identity)
        shared["model"].pop("mixer", None)
        del shared["training"]["seed"]
        return Study("compare", shared, self.stages)

    @cached_property
    def _prepared_run(self) -> tuple[RunConfig, Corpus]:
        first = next((contender for contender in self.contenders if not contender.counting), self.contenders[0])
        return with_text(resolve(self.preset, [*first.fitting(self.changes), *first.changes], self.source))

    @property
    def base(self) -> RunConfig:
        """The settings of the first contender that is trained by gradients, if any, with the vocabulary of the text."""
        return self._prepared_run[0]

    @property
    def corpus(self) -> Corpus:
        """The prepared text."""
        return self._prepared_run[1]

    @cached_property
    def floor(self) -> float | None:
        """A lower bound of any causal model's loss in nats per token; None for a text without a known grammar."""
        return floor(self.corpus.held_out, self.corpus.tokenizer) if self.base.training.objective.causal else None

    def config(self, contender: Candidate, seed: int = 0) -> RunConfig:
        """The settings of a run.

        A setting of the recipe that the mixer does not have is dropped, with a printed line.
        """

        def log(line: str) -> None:
            print(f"{contender.name}: {line}", file=sys.stderr)

        if contender not in self._configs:
            changes = [*contender.fitting(self.changes), *contender.changes]
            self._configs[contender] = resolve(self.preset, changes, self.source, log=log)
        config = with_corpus(self._configs[contender], self.corpus)
        return config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})

    def stages(self, results: Results) -> Iterator[list[Cell]]:
        """Stages: sizes that must be measured, then trainings, then measurements of the trained models."""
        if self.match is not None and self.match.equal == "time":
            yield list(self._sizings())
        contenders = self.sized_candidates(results)
        runs = {contender.name: [self._run(contender, seed) for seed in range(self.seeds)] for contender in contenders}
        yield [runs[contender.name][seed] for seed in range(self.seeds) for contender in contenders]
        trained = {
            contender: run
            for contender in contenders
            if (run := trained_run(runs[contender.name], results)) is not None
        }
        measurements: list[Cell] = [self._samples_cell(contender, run) for contender, run in trained.items()]
        measurements += self._probes()
        if trained:
            configs = {contender.name: self.config(contender) for contender in trained}
            folders = {contender.name: results.out / run.name for contender, run in trained.items()}
            measurements.append(Race("race", configs, machine(), folders))
        measurements += [
            Decoding(f"{contender.name}/decoding-{tokens}", contender.name, self.config(contender), tokens, machine())
            for contender in contenders
            for tokens in sorted(self.lengths)
        ]
        yield measurements

    def sized_candidates(self, results: Results) -> list[Candidate]:
        """All contenders, and the resized ones whose size is known so far."""
        if self.match is None:
            return list(self.contenders)
        if self.match.equal == "time":
            sizes = results.of(Size)
            return [
                *self.contenders,
                *(Candidate(size.name, tuple(size.changes), size.matched_to, size.matched) for size in sizes),
            ]
        match = self.match
        peer_config = self.config(match.peer)
        others = [contender for contender in self.contenders if contender.name != match.peer.name]
        return [
            *self.contenders,
            *(
                resize_candidate(
                    match.peer,
                    peer_config.layered_model,
                    contender,
                    self.config(contender).layered_model,
                    peer_config.training,
                    equal=match.equal,
                    by=match.by,
                )
                for contender in others
            ),
        ]

    def _sizings(self) -> Iterator[Sizing]:
        """The searches for the sizes of the peer that equal each contender in time."""
        assert self.match is not None
        peer = self.match.peer
        peer_config = self.config(peer)
        for contender in self.contenders:
            if contender.name != peer.name:
                name = f"sizes/{peer.name}.{self.match.by or 'any'}-of-{contender.name}"
                config = self.config(contender)
                yield Sizing(name, peer, peer_config, contender, config, self.match.equal, self.match.by)

    def _run(self, contender: Candidate, seed: int) -> CandidateCell:
        config = self.config(contender, seed)
        return CandidateCell(
            name=f"{contender.name}/seed-{seed}",
            config=config,
            identity=identity(config, self.corpus),
            scoring=scoring(config, len(self.corpus.held_out)),
            contender=contender.name,
        )

    def _samples_cell(self, contender: Candidate, run: CandidateCell) -> SamplesCell:
        """The cell that samples texts of a trained contender and takes its views."""
        ids = self.corpus.held_out.ids
        tokens = tokens_of_views(run.config.model)
        # a passage from the middle, because documents begin with titles in capitals
        first = max(0, min(len(ids) // 2, len(ids) - max(tokens, self.base.model.context)))
        return SamplesCell(
            name=f"{contender.name}/portrait",
            contender=contender.name,
            run_folder=run.name,
            identity=run.settings,
            run_code=run.code,
            device=run.config.training.device,
            passage=tuple(ids[first : first + tokens].tolist()),
            prompts=tuple(self.prompts),
            judged=self.floor is not None,
        )

    def _probes(self) -> list[Cell]:
        """The cells that train small models with the contenders' mixers on the probes."""
        contenders = [contender for contender in self.contenders if not contender.counting]
        if not self.probes or not contenders:
            return []
        shared = [change for change in self.changes if change.startswith(SHARED)]
        grid = Recall(
            contenders, self.probes, [DIFFICULTY], dims=[DIM], depth=DEPTH, batches=self.probe_batches, lrs=[LR],
            changes=shared, folder="probes", left_out=self.probes_left_out,
        )  # fmt: skip
        return list(grid.cells())

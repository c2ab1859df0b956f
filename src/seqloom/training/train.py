"""Training as a run: opened or made, trained to its end or until a signal, and saved.

    outcome = train(resolve("paper/small", ["model.mixer.kind=she"]), "runs/she")

The same call continues where the run stopped.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from signal import Signals
from typing import final

from seqloom.analysis.covering import same_as, sentence
from seqloom.core.model import Model
from seqloom.core.objective import Row
from seqloom.core.progress import Say, Show, progress, show_nothing
from seqloom.core.recording import graphs
from seqloom.data.prepare import Corpus
from seqloom.models.dropout import share_rows
from seqloom.ops.backends import use
from seqloom.runs.layer_source import keep_sources
from seqloom.runs.layout import Run, open_run, tokenizer_digest
from seqloom.runs.lock import lock
from seqloom.runs.metrics import Metrics, read
from seqloom.training import initial_weights
from seqloom.training.config import RunConfig
from seqloom.training.distributed import Unwritten, join_group, require_even, require_one_dropout
from seqloom.training.group import Group
from seqloom.training.length import with_first_length
from seqloom.training.lora import Adapt, add_adapters, require_adapt
from seqloom.training.memory import keep_freed_memory
from seqloom.training.preparation import identity, learner_of, prepare_run
from seqloom.training.session import Session
from seqloom.training.signals import Stop
from seqloom.training.step import Learner
from seqloom.training.stretches import InStretches
from seqloom.training.trackers import flatten_settings, require_trackers, track_rows


@final
@dataclass(frozen=True)
class Outcome:
    """The outcome of a call. `score` is the run's last held-out score, if any, and `summary` that score in words."""

    run: Run
    model: Model
    corpus: Corpus | None
    """the run's text, if its objective reads one"""
    first: int
    """the step that the call continued from"""
    step: int
    asked: Signals | None
    """the signal that stopped the training before its end"""
    signal: Signals | None
    """the signal that came at any time, even after the last step"""
    score: Row | None
    summary: str


def train(
    config: RunConfig,
    folder: str | Path,
    *,
    allow_drift: bool = False,
    say: Say | None = None,
    show: Show = progress,
    trackers: Sequence[str] = (),
    adapt: Adapt | None = None,
) -> Outcome:
    """Trains in `folder`, from its newest good checkpoint on, until all batches are read or a signal asks to stop.

    It also ends where the objective says that it is solved. `say` takes messages, a line at a time; `show`
    shows the progress, as `progress` does. Processes that torchrun started together train one model
    (`seqloom.training.distributed`); only rank 0 writes the run, prints and shows progress. `trackers` names those that
    get a copy of each row (`seqloom.training.trackers`). `adapt` adds the adapters of training.lora.

    ValueError, in one line, for settings that do not fit, a folder in use or of other settings, and a changed machine
    (unless `allow_drift`); NotFinite where the loss explodes.
    """
    require_trackers(trackers)
    with join_group(config.training) as group:
        if group.main:
            say = say or (lambda line: print(line, file=sys.stderr, flush=True))
            return _last(turns(config, Path(folder), allow_drift, say, show, group, trackers, Stop(), adapt))
        return _last(
            turns(config, Path(folder), allow_drift, lambda line: None, show_nothing, group, (), Stop(), adapt)
        )


def _last(run: Generator[None, None, Outcome]) -> Outcome:
    """The outcome of a run whose turns follow each other."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            outcome: Outcome = end.value
            return outcome


def turns(
    config: RunConfig,
    folder: Path,
    allow_drift: bool,
    say: Say,
    show: Show,
    group: Group,
    trackers: Sequence[str],
    signals: AbstractContextManager[Stop],
    adapt: Adapt | None = None,
) -> Generator[None, None, Outcome]:
    """`train` in one process of a group, step by step: gives way after each, and at the end returns the outcome."""
    require_even(config.training, group.size)
    require_one_dropout(config, group.mesh.rows)
    require_adapt(config.training.lora, adapt)
    config = _as_stored(config, Run(folder), say)
    with group.main_first():
        config, corpus = prepare_run(config)  # before the folder is made: a wrong source leaves nothing behind
        if config.training.begin is not None and not Run(folder).config.exists():
            tokenizer = None if corpus is None else tokenizer_digest(corpus.tokenizer.json)
            initial_weights.require(config.model, config.training.begin, tokenizer)
    with lock(folder) if group.main else nullcontext(), use(**config.backends), ExitStack() as stack:
        learner = _learner(config, corpus, group)
        add_adapters(learner.model, config.training.lora, adapt, config.training.seed)
        with group.main_first():
            run = _open_run(folder, config, corpus) if group.main else Run(folder)
        keep_freed_memory(say)  # after all that is refused, whose error stays the only line
        stack.enter_context(graphs(wanted=config.training.graph != "none"))
        if config.training.sequence > 1:
            learner.read_by(InStretches(learner.model, group))
        session = Session(config, run, learner, None if corpus is None else corpus.held_out, say, group)
        parameters = f"{sum(parameter.numel() for parameter in learner.parameters()):,} parameters"
        if config.training.precision != "float32":
            parameters += f" in {session.training.precision}"
        data = "" if corpus is None else corpus.description
        batches = learner.objective.description(config.data.seed)
        if config.model.fits:
            batches = f"{learner.objective.pass_steps(config.data.seed):,} batches a pass"
        say("; ".join(text for text in (data, batches, parameters, f"in {run.folder}") if text))
        for kind, name in same_as(learner.model).items():
            say(sentence(kind, name, config.model.context))
        mark = session.restore(stack, allow_drift)
        group.require_same({**identity(config, corpus), **session.facts()})
        stack.enter_context(share_rows(learner, group.mesh.row, group.mesh.rows))
        first = session.step
        settings = flatten_settings(config.model_dump(mode="json"))
        session.track = stack.enter_context(track_rows(trackers, run.folder, run.identity, settings, first, say))
        metrics = Metrics(run.metrics, say, mark=mark) if group.main else Unwritten()
        with metrics as rows, signals as stop, session.saver:
            with show("training", config.training.batches, "batches", start=first) as advance:
                yield from session.train(rows, stop, advance)
            if not session.has_ended:
                if session.step > first:
                    session.save(rows)
            elif group.of_main(lambda: _last_score(run, session.step) is None):
                session.evaluate(rows)  # its batches were reduced to those done: only the score is missing
                session.save(rows)
    score = session.score or (_last_score(run, session.step) if session.has_ended else None)
    summary = "" if score is None else learner.objective.summary(score)
    asked = None if session.has_ended else stop.asked
    return Outcome(run, learner.eval().model, corpus, first, session.step, asked, stop.asked, score, summary)


def _learner(config: RunConfig, corpus: Corpus | None, group: Group) -> Learner:
    """The learner of a run; of several processes each has its part of it, where the run is to be divided."""
    names = ("sequence", "shard", "reshard", "offload")
    divides = {"training": {name: getattr(config.training, name) for name in names}}
    group.require_same(identity(config, corpus) | divides)  # before the first tensor travels
    if config.training.shard == "none" or group.size == 1:
        return learner_of(config, corpus)
    from seqloom.training.sharding import divided_learner  # which imports torch's FSDP2

    return divided_learner(config, corpus, group)


def _as_stored(config: RunConfig, run: Run, say: Say) -> RunConfig:
    """The settings with the `data.unwrap` of a run that was begun when it was true by default."""
    if config.data.unwrap != "auto" or not run.config.exists() or run.data.get("unwrap", True) is not True:
        return config
    stored = config.model_copy(update={"data": config.data.model_copy(update={"unwrap": True})})
    if stored.identity("") == config.identity(""):
        return config
    say(f"data.unwrap=true, with which the run in {run.folder} was begun")
    return stored


def _open_run(folder: Path, config: RunConfig, corpus: Corpus | None) -> Run:
    """The run's folder with its settings and tokenizer."""
    run = open_run(folder, identity(with_first_length(config, Run(folder)), corpus))
    keep_sources(folder, config)
    if corpus is not None:
        run.keep_tokenizer(corpus.tokenizer.json)
    return run


def _last_score(run: Run, step: int) -> Row | None:
    """The held-out score of the model of a step, if it was scored, from the run's rows."""
    rows = [row for row in read(run.metrics) if row["step"] == step and "held_out" in row]
    return {name: value for name, value in rows[-1].items() if name != "step"} if rows else None

"""A training in this process: its progress, and its steps, evaluations and checkpoints."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, final

from seqloom.core.divided import any_divided, like_each
from seqloom.core.objective import Batch, Row
from seqloom.core.progress import Advance, Say
from seqloom.core.recording import takes_graphs
from seqloom.ops.backends import use
from seqloom.runs import checkpoint
from seqloom.runs.about import ROWS
from seqloom.runs.layout import Run
from seqloom.runs.metrics import Metrics
from seqloom.runs.model import fill
from seqloom.runs.rows import START, Mark
from seqloom.training.captured import chosen_steps
from seqloom.training.compilable import COMPILED, why_uncompiled
from seqloom.training.config import RunConfig
from seqloom.training.counting import Counting
from seqloom.training.distributed import Unwritten, digest
from seqloom.training.drift import backends_of, require_undrifted, surroundings, threads_of
from seqloom.training.group import Group
from seqloom.training.initial_weights import copy_weights
from seqloom.training.loop import Steps, Update, Updates, micro_batches
from seqloom.training.losses import require_finite
from seqloom.training.optimizers import Optimizer, optimizer
from seqloom.training.precision import resolve_precision
from seqloom.training.resume import newest
from seqloom.training.saving import Saver
from seqloom.training.schedules import Constant
from seqloom.training.signals import Stop
from seqloom.training.stages import Stage, first_step, stage_at
from seqloom.training.step import Learner
from seqloom.training.throughput import Throughput


@final
class Session:
    """A run in this process: how far it is, and what a step, an evaluation and a checkpoint do."""

    def __init__(self, config: RunConfig, run: Run, learner: Learner, held_out: Any, say: Say, group: Group) -> None:
        self.group = group
        self.config = config
        self.run = run
        self.learner = learner
        self.held_out = held_out
        self.say = say
        self.saver = Saver(run, group, config.training)
        self._resumed = newest(run, group, say, divided=any_divided(learner.parameters()))
        earlier = None if self._resumed is None else self._resumed.surroundings.get("precision")
        self.training = resolve_precision(config.training, learner.model.device, earlier)
        """the settings of the training, `auto` of the precision resolved"""
        if config.training.recompute == "layer":
            learner.model.recompute_layers()
        self.updates: Steps
        if config.model.fits:
            self.optimizer = Optimizer((), ())
            self.updates = Counting(learner, self.training, config.data.seed, group)
        else:
            self.optimizer = optimizer(learner.model, self.training, learner.objective)
            if takes_graphs(learner.model.device):
                self.optimizer.hold_rates(learner.model.device)  # uncaptured steps too, which are the same bits
            self.updates = Updates(learner.train(), self.optimizer, self.training, config.data.seed, group)
        self.step = 0
        self.stage = 0
        """the number of the stage that the model is set up for"""
        self.backends: dict[str, str] = {}
        """forced for some ops, as they were when the stage was interrupted"""
        self.solved = False
        """whether every answer of the objective was right at the last score, which ends the training"""
        self.best: dict[str, Any] | None = None
        """the step of the lowest held-out loss so far, and that loss"""
        self.score: Row | None = None
        self.track: Callable[[Row], None] = lambda row: None
        """takes a copy of each row"""
        self.surroundings: dict[str, Any] = {}
        """torch, device, threads, backends of this stage and code, as `drift.surroundings` gives them"""

    @property
    def has_ended(self) -> bool:
        """Whether there is nothing left to do."""
        return self.solved or self.step >= self.config.training.batches or self.is_stale

    @property
    def is_stale(self) -> bool:
        """Whether the last `patience` evaluations had no lower held-out loss than one before them."""
        training = self.config.training
        if not training.patience or self.best is None:
            return False
        return self.step - int(self.best["step"]) >= training.patience * training.evaluate_every

    def restore(self, stack: ExitStack, allow_drift: bool) -> Mark:
        """Restores the newest good checkpoint, if there is one, with its stage and backends; returns its mark.

        Its number of threads holds until `stack` is closed. ValueError where the run has more batches than asked for.
        """
        resumed, self._resumed = self._resumed, None
        step = 0 if resumed is None else resumed.saved.step
        asked = self.config.training.batches
        if step > asked:
            raise ValueError(
                f"{self.run.folder} has {step:,} batches already, more than training.batches={asked}: "
                f"set training.batches to {step} or more, or choose another folder"
            )
        earlier = resumed.surroundings if resumed is not None and not allow_drift else {}
        stack.enter_context(threads_of(earlier, self.say))
        self._enter(stage_at(self.config.training.stages, max(step - 1, 0)), earlier)  # of the last step, from 0
        self.group.require_same(self.surroundings)  # before a divided model waits for a rank that is refused
        if resumed is not None:
            require_undrifted(resumed.surroundings, self.surroundings, allow_drift, self.say)
            self._take_up(resumed.saved)
            self.best = resumed.best
            self.solved = resumed.solved
            self.say(f"going on after step {self.step:,} of {self.config.training.batches:,}")
        elif self.config.training.begin is not None:
            copy_weights(self.learner.model, self.config.training.begin, self.say)
        if self.training.compile:
            why = why_uncompiled(self.learner.model, self.learner.objective, self.training)
            self.say(f"nothing is compiled: {why}" if why else COMPILED)
        if isinstance(self.updates, Updates):
            self.updates = chosen_steps(self.updates, earlier.get("graph", "none") if earlier else None, self.say)
        return START if resumed is None else resumed.rows

    def facts(self) -> dict[str, Any]:
        """What must be equal in all processes that train one model, besides what makes the run."""
        settings = self.config.model_dump(mode="json", exclude={"data", "backends"})
        around = {**self.surroundings, "precision": self.training.precision}
        return {**settings, **around, "step": self.step, "weights": digest(self.learner)}

    def train(self, rows: Metrics | Unwritten, stop: Stop, advance: Advance) -> Iterator[None]:
        """Step by step to the end, or until a signal asks to stop; gives way after each step."""
        settings = self.config.training
        while not self.has_ended and not self.group.agree_to_stop(stop):
            self.saver.poll()
            if self.stage != stage_at(settings.stages, self.step):
                self._record_update(rows, self.updates.wait())
                self._enter(self.stage + 1, {})
            with use(**self.backends):
                update = self.updates(self.step)
            self.step += 1
            note = self._record_update(rows, update)
            advance(note=f"{note}{self._check()}")
            scores = self.has_ended or bool(settings.evaluate_every and self.step % settings.evaluate_every == 0)
            saves = self.has_ended or self.step % settings.save_every == 0
            if scores or saves:
                self._record_update(rows, self.updates.wait())
            if scores:
                advance(0, note="scoring held-out data")
                self.evaluate(rows)
            is_best = self.best is not None and self.best["step"] == self.step
            if saves or is_best:
                self.save(rows)
            yield
        self._record_update(rows, self.updates.wait())
        if self.is_stale and self.best is not None:
            best = f"step {self.best['step']:,}, {self.best['loss']:.3f}"
            self.say(f"ended by training.patience after step {self.step:,}: the lowest held-out loss is that of {best}")

    def evaluate(self, rows: Metrics | Unwritten) -> None:
        """Scores the model on data that is never trained on; every process does, and rank 0's score is that of all."""
        score_here = self.learner.call(lambda: self.learner.objective.score(self.learner.model, self.held_out))
        score = self.group.of_main(lambda: score_here)
        require_finite(self.learner.model, self.step, score["held_out"])
        self._record(rows, {"step": self.step, **score, **self._throughput.memory()})
        if self.best is None or score["held_out"] < self.best["loss"]:
            self.best = {"step": self.step, "loss": score["held_out"]}
        self.score = score

    def save(self, rows: Metrics | Unwritten) -> None:
        """Saves a checkpoint; NotFinite where a weight is not finite."""
        model, objective = self.learner.model, self.learner.objective
        require_finite(model, self.step)
        require_finite(objective, self.step)
        optional = {"objective": objective.state_dict(), "carried": self.updates.carried_state}
        tensors = {"model": model.state_dict(), "optimizer": self.optimizer.tensors()}
        tensors |= {group: named for group, named in optional.items() if named}
        meta = {} if isinstance(rows, Unwritten) else self._describe(rows)
        self.saver.save(self.step, tensors, meta, self.best["step"] if self.best else None)

    def _describe(self, rows: Metrics) -> dict[str, Any]:
        """A checkpoint's JSON: how the training goes on from it."""
        rows.sync()  # the rows reach the disk before the checkpoint that counts them
        around = dict(self.surroundings)
        if self.updates.graph != "none":
            around["graph"] = self.updates.graph
        if self.config.training.precision == "auto":
            around["precision"] = self.training.precision
        meta: dict[str, Any] = {"run": self.run.identity, "best": self.best, "surroundings": around}
        meta |= {"config": self.config.model_dump(mode="json"), "solved": self.solved, ROWS: rows.mark.row()}
        return meta

    def _enter(self, number: int, earlier: dict[str, Any]) -> None:
        """Sets the model up for a stage; `earlier` are its `surroundings` when it was interrupted, or {}.

        Its backends are those that its first batch chooses. A run that continues within the stage takes the ones that
        were chosen then.
        """
        stages = self.config.training.stages
        self.stage = number
        if stages:
            self._apply(stages[number])
            self.say(f"stage {number + 1} of {len(stages)}: {stages[number].summary}")
        self.backends = backends_of(earlier)
        with use(**self.backends):
            first = self._first_micro_batch(first_step(stages, number))
            self.surroundings = surroundings(self.learner, first, self.training)
        self.surroundings["backends"] = self._backends_of_all(self.surroundings["backends"])
        self._throughput = Throughput(self.learner, first, self.training.precision, self.group.size)

    def _backends_of_all(self, ran: dict[str, list[str]]) -> dict[str, list[str]]:
        """The backends that ran in any process, where each has another stretch and may choose others."""
        if self.training.sequence == 1:
            return ran
        stretches = self.group.of_each(ran)
        ops = sorted({op for each in stretches for op in each})
        return {op: sorted({name for each in stretches for name in each.get(op, [])}) for op in ops}

    def _apply(self, stage: Stage) -> None:
        """Sets the windows, the rows and the learning rate of a stage."""
        model = self.config.model
        stages = self.config.training.stages
        if any(other.window is not None for other in stages):
            windowed = model if stage.window is None else self.config.layered_model.with_window(stage.window)
            self.learner.model.take_windows(windowed)
        if any(other.context is not None for other in stages):
            self.learner.objective.resize(stage.context or model.context)
        self.updates.begin_stage(stage.lr or self.config.training.lr)

    def _record_update(self, rows: Metrics | Unwritten, update: Update | None) -> str:
        """Writes the row of an update, if there is one; returns its loss in words."""
        if update is None:
            return ""
        settings = self.config.training
        self.solved = self.solved or update.ended
        row: Row = {"step": update.step}
        row |= {name: value for name, value in (("loss", update.loss), ("norm", update.norm)) if value is not None}
        if settings.schedule != Constant() or any(stage.lr is not None for stage in settings.stages):
            row["lr"] = update.lr
        if settings.stages:
            row["stage"] = self.stage + 1
        speed = self._throughput.row(update)
        self._record(rows, {**row, "seconds": update.seconds, "compute": update.compute, **speed})
        loss = "" if update.loss is None else f"loss {update.loss:.3f}, "
        return f"{loss}{self._throughput.note(speed)}"

    def _record(self, rows: Metrics | Unwritten, row: Row) -> None:
        rows.append(row)
        self.track(row)

    def _check(self) -> str:
        """The objective's note on the model as it is now; whether it is solved is decided by rank 0."""
        check = self.learner.call(lambda: self.learner.objective.check(self.learner.model, self.step))
        if check is None:
            return ""
        self.solved = self.group.of_main(lambda: check.solved)
        return f", {check.note}"

    def _take_up(self, saved: checkpoint.Checkpoint) -> None:
        """Restores model, objective, optimizer, carried state and step from a checkpoint."""
        modules = {"model": self.learner.model, "objective": self.learner.objective}
        owners = self.optimizer.owners(saved.tensors["optimizer"])
        like = {**{group: module.state_dict() for group, module in modules.items()}, "optimizer": owners}
        saved = checkpoint.read_parts(saved, like)
        for group, module in modules.items():
            weights = module.state_dict()
            if weights or group == "model":
                tensors = like_each(saved.tensors.get(group, {}), weights)
                fill(module, replace(saved, tensors={**saved.tensors, group: tensors}), group)
        self.optimizer.load(saved.tensors["optimizer"])
        self.updates.carry(saved.tensors.get("carried", {}))
        self.step = saved.step

    def _first_micro_batch(self, step: int) -> Batch:
        """This process's rows of the first micro-batch of a step."""
        batch = self.learner.objective.batch(self.config.data.seed, step, self.learner.model)
        return self.group.rows(micro_batches(batch, self.config.training.accumulate)[0])

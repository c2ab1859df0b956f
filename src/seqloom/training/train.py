"""Training as a run: everything found again or made, the loop, and what is kept of it.

    outcome = train(resolve("paper/small", ["model.mixer.kind=she"]), "runs/she")

The same call goes on where the run stopped.
"""

import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from seqloom.core.device import chosen
from seqloom.core.progress import Advance, progress
from seqloom.data.prepare import Corpus, prepare
from seqloom.data.windows import Windows
from seqloom.evaluation.scores import Scores, score
from seqloom.models.decoder import Decoder
from seqloom.ops.backends import use
from seqloom.runs import checkpoint
from seqloom.runs.about import ROWS
from seqloom.runs.layout import Run, open_run
from seqloom.runs.lock import lock
from seqloom.runs.metrics import Metrics, read
from seqloom.runs.model import fill
from seqloom.runs.rows import START
from seqloom.training.config import RunConfig
from seqloom.training.drift import backends_of, drifted, surroundings, threads_of
from seqloom.training.loop import require_finite, updates
from seqloom.training.memory import keep_freed_memory, require_room
from seqloom.training.optimizers import Optimizer, optimizer
from seqloom.training.resume import resume
from seqloom.training.schedules import Constant
from seqloom.training.signals import Stop

Say = Callable[[str], None]
Show = Callable[..., AbstractContextManager[Advance]]


@final
@dataclass(frozen=True)
class Outcome:
    """How a run stands: `asked` is the signal that stopped it, `scores` the last held-out ones of this call, if any."""

    run: Run
    model: Decoder
    corpus: Corpus
    step: int
    asked: signal.Signals | None
    scores: Scores | None


def train(
    config: RunConfig, folder: str | Path, *, allow_drift: bool = False, say: Say | None = None, show: Show = progress
) -> Outcome:
    """Trains in `folder`, from its newest good checkpoint on, until all batches are read or a signal asks to stop.

    `say` takes what there is to tell, a line at a time; `show` shows how far the training is, as `progress` does.

    ValueError, in one line, for settings that do not fit, a folder in use or of other settings, and a changed machine
    (unless `allow_drift`); NotFinite where the cost explodes.
    """
    say = say or (lambda line: print(line, file=sys.stderr, flush=True))
    keep_freed_memory(say)
    device = chosen(config.training.device)
    config, corpus = with_text(config)  # before the folder is made: a wrong source leaves nothing behind
    with lock(folder), use(**config.backends), ExitStack() as stack:
        torch.manual_seed(config.training.seed)
        model = Decoder(config.model).to(device, config.training.dtype)
        tokenizer = corpus.tokenizer.json
        run = open_run(folder, config.identity(corpus.identity, tokenizer))
        run.keep_tokenizer(tokenizer)
        say(f"{corpus.description}; {sum(p.numel() for p in model.parameters()):,} parameters; in {run.folder}")
        return _go_on(stack, config, run, corpus, model, allow_drift, say, show)


def with_text(config: RunConfig) -> tuple[RunConfig, Corpus]:
    """The run's text, made ready, and its settings with the vocabulary that the tokenizer really has.

    ValueError, before the text is read, where a model of these settings would not fit into the memory.
    """
    require_room(config.model, chosen(config.training.device), config.training)
    data = config.data
    corpus = prepare(
        data.source,
        vocab=data.vocab,
        context=config.model.context,
        held_out=data.held_out,
        seed=data.seed,
        unwrap=data.unwrap,
    )
    model = config.model.model_copy(update={"vocab": corpus.tokenizer.vocab})
    return config.model_copy(update={"model": model}), corpus


def _go_on(
    stack: ExitStack,
    config: RunConfig,
    run: Run,
    corpus: Corpus,
    model: Decoder,
    allow_drift: bool,
    say: Say,
    show: Show,
) -> Outcome:
    settings = config.training
    windows = Windows(corpus.train, config.model.context, config.data.seed, config.data.within_documents)
    updater = optimizer(model, settings)
    step, best, mark = 0, None, START
    saved = checkpoint.newest(run.checkpoints, say)
    resumed = resume(saved, run) if saved is not None else None
    before = resumed.surroundings if resumed is not None and not allow_drift else {}
    stack.enter_context(threads_of(before, say))
    with use(**backends_of(before)):
        here = surroundings(model, windows.batch(0, settings.batch // settings.accumulate)[:, :-1])
    if saved is not None and resumed is not None:
        _same(resumed.surroundings, here, allow_drift, say)
        fill(model, saved)
        updater.load(saved.tensors["optimizer"])
        step, best, mark = saved.step, resumed.best, resumed.rows
        say(f"going on after step {step:,} of {settings.batches:,}")
    scores: Scores | None = None
    update = updates(model.train(), updater, windows, settings)

    def keep(rows: Metrics) -> None:
        require_finite(model, step)
        rows.sync()  # a checkpoint never knows more than the rows do
        meta = {"run": run.identity, "best": best, "surroundings": here, "config": config.model_dump(mode="json")}
        _save(run, step, model, updater, {**meta, ROWS: rows.mark.row()})

    def weigh(rows: Metrics) -> None:
        nonlocal scores, best
        scores = score(model, corpus.held, batch=settings.batch)
        require_finite(model, step, scores.cost)
        rows.append({"step": step, **scores.row()})
        if best is None or scores.cost < best["cost"]:
            best = {"step": step, "cost": scores.cost}

    with Metrics(run.metrics, say, mark=mark) as rows, Stop() as stop:
        with show("training", settings.batches, "batches", start=step) as advance:
            while step < settings.batches and not stop.asked:
                with use(**backends_of(before)):
                    done = update(step)
                step += 1
                rate = {} if settings.schedule == Constant() else {"lr": done.lr}
                row = {"step": step, "cost": done.cost, **rate}
                rows.append({**row, "seconds": done.seconds, "compute": done.compute})
                advance(note=f"cost {done.cost:.3f}")
                last = step == settings.batches
                if last or (settings.evaluate_every and step % settings.evaluate_every == 0):
                    weigh(rows)
                if last or step % settings.save_every == 0 or (best and best["step"] == step):
                    keep(rows)
        if stop.asked and step and (saved is None or step > saved.step):
            keep(rows)
        elif step == settings.batches and not any(
            "held_out" in row for row in read(run.metrics) if row["step"] == step
        ):
            weigh(rows)  # a longer run was cut to what it had done
            keep(rows)
    return Outcome(run, model.eval(), corpus, step, stop.asked if step < settings.batches else None, scores)


def _save(run: Run, step: int, model: Decoder, updater: Optimizer, meta: dict[str, Any]) -> None:
    tensors = {"model": model.state_dict(), "optimizer": updater.tensors()}
    checkpoint.save(run.checkpoints, step, tensors, meta)
    checkpoint.prune(run.checkpoints, keep_last=2, best=meta["best"]["step"] if meta["best"] else None)


def _same(before: dict[str, Any], here: dict[str, Any], allow_drift: bool, say: Say) -> None:
    changed = drifted(before, here)
    if changed and not allow_drift:
        raise ValueError(
            f"the run would no longer be the same bit for bit: {'; '.join(changed)}; go on with --allow-drift"
        )
    for difference in changed:
        say(f"drift allowed: {difference}")

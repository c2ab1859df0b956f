"""Mixers compared fairly: one preset, one text, one order of batches; what differs is the mixer alone.

    compare([contender("attention:heads=32"), contender("she")], "paper/small", ..., out="runs/compare")

Each contender is a run of its own per seed, in OUT/NAME/seed-N, and goes on where it stopped. The seed draws the
initial
weights and the dropout; the text, its held-out part and the order of the batches stay what they are. OUT itself belongs
to the settings that all share, and refuses others.
"""

import math
import statistics
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import torch

from seqloom.analysis.cost import model_cost
from seqloom.core.state import State, nbytes
from seqloom.models.decoder import Decoder
from seqloom.runs.layout import open_run
from seqloom.runs.lock import lock
from seqloom.runs.metrics import read
from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome, train, with_text

LAST = 250
"""batches over whose training costs the median is taken, at the end of a run"""
Row = dict[str, Any]


@final
@dataclass(frozen=True)
class Contender:
    """One mixer of a comparison: what its folder and its row are called, and the settings that make it."""

    name: str
    changes: tuple[str, ...]


class Stopped(Exception):
    """A signal stopped a run, which was saved; `code` is the exit code of a process that a signal ends."""

    def __init__(self, name: str, code: int) -> None:
        super().__init__(f"stopped and saved; the same command goes on with {name}")
        self.code = code


def contender(text: str) -> Contender:
    """Reads `KIND` or `KIND:NAME=VALUE,NAME=VALUE`, as `attention:heads=32`."""
    kind, _, rest = text.partition(":")
    settings = [entry for entry in rest.split(",") if entry]
    if not kind or any("=" not in entry for entry in settings):
        raise ValueError(f"a contender is KIND or KIND:NAME=VALUE,…, as attention:heads=32, not {text!r}")
    changes = (f"model.mixer.kind={kind}", *(f"model.mixer.{entry}" for entry in settings))
    return Contender("-".join([kind, *settings]), changes)


def compare(
    contenders: Sequence[Contender],
    preset: str,
    changes: Sequence[str],
    out: Path,
    *,
    source: str | None = None,
    seeds: int = 1,
    look: Callable[[Outcome], Row] | None = None,
) -> tuple[list[Row], Outcome]:
    """Trains every contender once a seed; returns a row for each, the best held-out cost first, and the last outcome.

    `look` adds columns of its own to a run's row. ValueError where names repeat, settings do not fit, or OUT holds a
    comparison of other settings; `Stopped` when a signal ends it early.
    """
    names = [each.name for each in contenders]
    if not contenders or len(set(names)) < len(names):
        raise ValueError(f"a comparison needs contenders of different names, not {', '.join(names) or 'none'}")
    if seeds < 1:
        raise ValueError(f"seeds must be at least 1, not {seeds}")
    configs = {each.name: resolve(preset, [*changes, *each.changes], source) for each in contenders}
    _claim(out, configs[names[0]])
    found: dict[str, list[Row]] = {name: [] for name in names}
    for seed in range(seeds):
        for name, config in configs.items():
            print(f"\n{name}, seed {seed}", file=sys.stderr)
            seeded = config.model_copy(update={"training": config.training.model_copy(update={"seed": seed})})
            outcome = train(seeded, out / name / f"seed-{seed}")
            if outcome.asked is not None:
                raise Stopped(name, 128 + int(outcome.asked))
            outcome.model.tokenizer = outcome.corpus.tokenizer
            found[name].append({**measured(outcome), **(look(outcome) if look else {})})
    rows = [{"model": name, **_over_seeds(runs)} for name, runs in found.items()]
    return sorted(rows, key=lambda row: float(row["held-out cost"])), outcome


def measured(outcome: Outcome) -> Row:
    """A trained model's numbers, by the words that a table's head has for them."""
    model = outcome.model
    context = model.config.context
    rows = read(outcome.run.metrics)
    steps = [row for row in rows if "cost" in row]
    held = [row for row in rows if "held_out" in row][-1]
    seconds = statistics.median(row["seconds"] for row in steps)
    batch = outcome.run.settings["training"]["batch"]
    return {
        "training cost": statistics.median(row["cost"] for row in steps[-LAST:]),
        "held-out cost": held["held_out"],
        "bits a byte": held["bits_per_byte"],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "operations a token": model_cost(model, context).total // context,
        "ms a step": seconds * 1e3,
        "tokens a second": round(batch * context / seconds),
        "state bytes": nbytes(state_after(model, context)),
    }


def state_after(model: Decoder, tokens: int) -> State:
    """What one row keeps after `tokens` tokens, trimmed as it would be saved."""
    device = model.token.weight.device
    with torch.no_grad():
        read = model.extend(torch.zeros(1, tokens, dtype=torch.long, device=device), model.start(1))
        return model.trim(read[1])


def _over_seeds(runs: list[Row]) -> Row:
    """The means over seeds; from two on, with half the width of the held-out cost's 95% interval (Student's t)."""
    row = {name: _mean([run[name] for run in runs]) for name in runs[0]}
    if len(runs) > 1:
        costs = [run["held-out cost"] for run in runs]
        t = (12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26)[min(len(runs), 10) - 2]
        row = {**row, "± held-out": t * statistics.stdev(costs) / math.sqrt(len(costs))}
    return row


def _mean(values: list[Any]) -> Any:
    return values[0] if all(value == values[0] for value in values) else statistics.fmean(values)


def _claim(out: Path, config: RunConfig) -> None:
    """Claims OUT for the settings that all contenders share; ValueError where it belongs to others."""
    config, corpus = with_text(config)
    shared = config.identity(corpus.identity)
    del shared["model"]["mixer"], shared["training"]["seed"]
    with lock(out):
        open_run(out, {"compare": 1, **shared})

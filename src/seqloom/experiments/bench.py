"""Mixers timed side by side: checked against their references first, then interleaved, as ratios to one of them.

    rows = bench(["she", "he"], against="attention:heads=32", dim=128, context=128, batch=64)

What is timed is in `subjects`, what is checked in `agree`; the method is `analysis.measure.race`. A ratio is the median
over rounds of a mixer's time over the peer's in the same round.
"""

from collections.abc import Sequence
from typing import Any

import torch

from seqloom.analysis.measure import Timing, race
from seqloom.analysis.others import loaded, watch
from seqloom.core.config import near
from seqloom.core.device import chosen
from seqloom.core.mixer import Mixer
from seqloom.core.progress import progress
from seqloom.experiments.agree import require_agreement
from seqloom.experiments.contenders import contender
from seqloom.experiments.noise import training_step
from seqloom.experiments.subjects import TOKENS, WHAT, Run, Tokens, forward, require_sizes, sublayer
from seqloom.ops import backends
from seqloom.training.config import RunConfig
from seqloom.training.memory import keep_freed_memory
from seqloom.training.settings import resolve

Row = dict[str, Any]
SIZES = {"dim": 128, "context": 128, "batch": 64}
"""where none are given; those of a preset's `step` are the preset's own"""
WARM = 2


def bench(
    mixers: Sequence[str],
    against: str,
    *,
    dim: int | None = None,
    context: int | None = None,
    batch: int | None = None,
    what: str = "sublayer",
    repeats: int = 7,
    preset: str | None = None,
) -> list[Row]:
    """A row for each mixer (`KIND` or `KIND:NAME=VALUE,…`) and for the peer `against`, the quickest first.

    Times are in ms; `[median, lower quartile, upper quartile]` is written `…_median` and `…_quartiles`. ValueError, in
    one line and before anything is timed, for names, sizes and settings that do not fit, and for a mixer whose numbers
    are not its reference's. The process keeps freed memory from then on, as training does.
    """
    if what not in WHAT:
        raise ValueError(f"--what: {what!r} cannot be timed; {near(what, WHAT)}")
    if repeats < 1:
        raise ValueError(f"--repeats must be at least 1, not {repeats}")
    if preset is not None and what != "step":
        raise ValueError(f"a preset says nothing about a {what}: give --preset with --what step alone")
    given = {"dim": dim, "context": context, "batch": batch}
    for name, size in given.items():
        if size is not None and size < 1:
            raise ValueError(f"--{name} must be at least 1, not {size}")
    names = list(dict.fromkeys([*mixers, against]))
    configs = {name: _config(name, preset or "paper/small", what, given) for name in names}
    keep_freed_memory()
    with torch.random.fork_rng(devices=[]):
        runs, used = {}, {}
        with progress("checking", len(names), "mixers") as advance:
            for name, config in configs.items():
                runs[name], used[name] = _checked(name, config, what)
                advance()
        others = watch()
        with progress("timing", repeats * len(runs), "runs") as advance:
            times = race(runs, repeats, warm=WARM, after=advance)
        busy = loaded(others())
    rows = [_row(name, configs[name], what, times[name], times[against], used[name]) for name in names]
    shared = {"repeats": repeats, "threads": torch.get_num_threads(), "loaded": busy, "against": against}
    return sorted(({**row, **shared} for row in rows), key=lambda row: float(row["ms_median"]))


def _config(name: str, preset: str, what: str, given: dict[str, int | None]) -> RunConfig:
    sizes = {each: size or (None if what == "step" else SIZES[each]) for each, size in given.items()}
    places = {"dim": "model.dim", "context": "model.context", "batch": "training.batch"}
    changes = [f"{places[each]}={size}" for each, size in sizes.items() if size is not None]
    config = resolve(preset, ["data.source=stories", *contender(name).changes, *changes])
    with torch.device("meta"):
        mixer = config.model.mixers[0].build(config.model.dim, config.model.context)
    require_sizes(name, mixer, config.training.batch, config.model.context, what)
    return config


def _checked(name: str, config: RunConfig, what: str) -> tuple[Run, dict[str, list[str]]]:
    """What is to be timed, and the backends that it ran, after its mixer was found right on them."""
    sizes, device = config.model, chosen(config.training.device)
    mixer: Mixer = sizes.mixers[0].build(sizes.dim, sizes.context).to(device)
    tokens = sizes.context + (what == "token")
    x = torch.randn(config.training.batch, tokens, sizes.dim, device=device)
    made: dict[str, Any] = {"sublayer": sublayer, "forward": forward, "token": Tokens}
    once: Run = training_step(sizes, config.training) if what == "step" else made[what](mixer, x)

    def run() -> None:
        with backends.use(**config.backends):
            once()

    with backends.recorded() as used:
        run()
    require_agreement(name, mixer, x, used, what)
    return run, used


def _row(name: str, config: RunConfig, what: str, time: Timing, peer: Timing, used: dict[str, list[str]]) -> Row:
    ms, ratio = 1e3 / (TOKENS if what == "token" else 1), time.over(peer)
    context = config.model.context
    with torch.device("meta"):
        model = config.model.build()
    mixer = model.mixers[0]
    each = {
        "step": lambda: model.cost(context).total // context,
        "token": lambda: mixer.cost(context + 1, "token").total,
    }
    operations = each.get(what, lambda: mixer.cost(context).total // context)()
    return {
        "mixer": name,
        "what": what,
        **{"dim": config.model.dim, "context": context, "batch": config.training.batch},
        "ms_median": ms * time.median,
        "ms_quartiles": [ms * quartile for quartile in time.quartiles],
        "ratio_median": ratio.median,
        "ratio_quartiles": list(ratio.quartiles),
        "backends": used,
        "operations_a_token": operations,
    }

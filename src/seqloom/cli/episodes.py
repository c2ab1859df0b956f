"""`seqloom evaluate` of a model that acts: it plays episodes, or predicts the actions of recorded ones."""

import json
from pathlib import Path
from typing import Any

from seqloom.core.table import table
from seqloom.data.episodes import read_episodes
from seqloom.evaluation.playing import play
from seqloom.face import load
from seqloom.runs.layout import find_run
from seqloom.training.objectives import objective_of
from seqloom.training.objectives.actions import Actions


def played(run: Path, asked: list[float], episodes: int, batch: int, step: int | None, as_json: bool) -> str:
    """The return that a model reached for each that it was asked for, as text or as one JSON object."""
    model: Any = load(run, step=step)
    rows = play(model, asked, episodes, batch=batch)
    name = model.config.environment.name
    if as_json:
        returns = [{"asked": row.asked, "mean": row.mean, "error": row.error, "reached": row.reached} for row in rows]
        return json.dumps({"environment": name, "returns": returns})
    head = ("return asked", "reached, mean", "standard error", "lowest", "highest", "episodes")
    return f"{run} plays {name}\n\n" + table(
        head, [(row.asked, row.mean, row.error, min(row.reached), max(row.reached), len(row.reached)) for row in rows]
    )


def acts(run: Path) -> bool:
    """Whether a run's model acts, and is scored on episodes. Raises as `find_run` does."""
    return objective_of(find_run(run)).plays


def scored_on_episodes(run: Path, data: str, batch: int, step: int | None, as_json: bool) -> str:
    """The loss of a model on recorded episodes: all of them."""
    model: Any = load(run, step=step)
    config = model.config
    episodes = read_episodes(data)
    row = Actions(config, episodes, episodes, batch).score(model, episodes)
    if as_json:
        return json.dumps(row)
    unit = "squared" if config.environment.continuous else "nats"
    names = {"held_out": f"loss per action, {unit}", "accuracy": "actions that are the likeliest"}
    return table((str(run), data), [(names.get(name, name), row[name]) for name in row])

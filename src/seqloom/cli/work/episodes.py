"""`seqloom evaluate` of a model that acts: it plays episodes, or predicts the actions of recorded ones."""

import json
from pathlib import Path
from typing import Any

from seqloom.core.table import table
from seqloom.data.episodes import PREFIX, read_episodes
from seqloom.evaluation.playing import play
from seqloom.face import load
from seqloom.models.decision_config import DecisionConfig
from seqloom.runs.layout import find_run
from seqloom.runs.model import config_of
from seqloom.training.objectives import objective_of
from seqloom.training.objectives.actions import Actions, require_same


def play_episodes(
    run: Path, asked: list[float] | None, episodes: int, batch: int, step: int | None, as_json: bool
) -> str:
    """The return that a model reached for each that it was asked for, as text or as one JSON object.

    `asked` is None for a model that reads no return, which has one row. ValueError where the two do not fit, and as
    `find_run` and `play` raise.
    """
    config = config_of(find_run(run))
    if isinstance(config, DecisionConfig):
        if asked is not None and config.returns == "none":
            raise ValueError(
                f"the model of {run} reads no return (model.returns=none): leave out --returns, and choose the number "
                "of episodes by --episodes"
            )
        if asked is None and config.returns != "none":
            raise ValueError(
                f"--episodes needs --returns, e.g. --returns 50,200,500: the model of {run} reads a return"
            )
    model: Any = load(run, step=step)
    rows = play(model, asked, episodes, batch=batch)
    name = model.config.environment.name
    if as_json:
        returns = [{"asked": row.asked, "mean": row.mean, "error": row.error, "reached": row.reached} for row in rows]
        return json.dumps({"environment": name, "returns": returns})
    head = ("return asked", "reached, mean", "standard error", "lowest", "highest", "episodes")
    cells = [(row.asked, row.mean, row.error, min(row.reached), max(row.reached), len(row.reached)) for row in rows]
    first = 1 if asked is None else 0  # without the column of what was asked for
    return f"{run} plays {name}\n\n" + table(head[first:], [row[first:] for row in cells])


def acts(run: Path) -> bool:
    """Whether a run's model acts, and is scored on episodes. Raises as `find_run` does."""
    return objective_of(find_run(run)).learned_task == "actions"


def plays_unasked(run: Path) -> bool:
    """Whether a run's model acts and reads no return, so that it plays without one. Raises as `find_run` does."""
    config = config_of(find_run(run))
    return isinstance(config, DecisionConfig) and config.returns == "none"


def scored_on_episodes(run: Path, data: str, batch: int, step: int | None, as_json: bool) -> str:
    """The loss of a model on recorded episodes: all of them. ValueError where they do not fit the model."""
    if plays_unasked(run) and not data.startswith(f"{PREFIX}:"):
        raise ValueError(
            f"{data[:100]}: recorded episodes are named {PREFIX}:ENV:POLICY[:COUNT[:SEED]]; leave out --data to let "
            f"{run} play"
        )
    model: Any = load(run, step=step)
    config = model.config
    episodes = read_episodes(data)
    require_same(config.environment, episodes.environment)
    longest = int(episodes.lengths.max())
    if longest > config.vocab:
        raise ValueError(
            f"{data[:100]}: an episode has {longest:,} steps, and the model of {run} knows {config.vocab:,}: choose "
            "shorter episodes"
        )
    row = Actions(config, episodes, episodes, batch).score(model, episodes)
    if as_json:
        return json.dumps(row)
    unit = "squared" if config.environment.continuous else "nats"
    names = {"held_out": f"loss per action, {unit}", "accuracy": "actions that are the likeliest"}
    return table((str(run), data), [(names.get(name, name), row[name]) for name in row])

"""A Decision Transformer plays: it is asked for a return, and the return that it reaches is counted.

    R̂_1 = the return that is asked for,   R̂_{t+1} = R̂_t - reward_t       (R̂_t = R̂_1 where it learned `returns=end`)
    a_t ~ p(a | the last `context` steps up to R̂_t, s_t), or the numbers that it predicts

Where the window holds whole episodes, the model reads them on step by step, from a state.

A model that reads no return (`returns=none`) is asked for none.

An action of several is drawn, as in the authors' program for discrete actions: a model of episodes of several policies
is a mixture of them, whose likeliest action is often the same for every return.

Source: Chen et al., Decision Transformer, arXiv:2106.01345, Algorithm 1. Nothing else differs.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from seqloom.core.progress import progress
from seqloom.core.rest import Rest
from seqloom.data.episodes import Environment, open_environment, require_end
from seqloom.models.decision import Decision, Layers

MOST = 10**5
"""episodes of one call"""


@final
@dataclass(frozen=True)
class Played:
    """The returns that a model reached when it was asked for one."""

    asked: float | None
    """None where nothing was asked for"""
    reached: tuple[float, ...]
    """of each episode"""

    @property
    def mean(self) -> float:
        """The mean return."""
        return sum(self.reached) / len(self.reached)

    @property
    def error(self) -> float | None:
        """The standard error of the mean; None of one episode."""
        count = len(self.reached)
        return float(np.std(self.reached, ddof=1)) / math.sqrt(count) if count > 1 else None


def play(
    model: Decision, returns: Sequence[float] | None, episodes: int, *, batch: int = 64, seed: int = 0
) -> list[Played]:
    """The model plays so many episodes for each return; `batch` of them are played at once.

    Episode n begins in the same state for every return. With `returns=None` a model that reads no return plays: one
    row. ValueError for a return that is no number, for none where the model reads one, where there is nothing to play,
    and for an episode without end.
    """
    if not isinstance(model, Decision):
        raise ValueError(f"a model of kind {model.config.kind} plays no episodes: use one of model.kind=decision")
    if returns is None and model.config.returns != "none":
        raise ValueError("the model reads a return: give at least one to ask for")
    if returns is not None and not (returns and all(math.isfinite(asked) for asked in returns)):
        raise ValueError(f"returns are finite numbers, at least one, not {list(returns)}")
    targets: Sequence[float | None] = [None] if returns is None else returns
    if not 1 <= episodes * len(targets) <= MOST or batch < 1:
        raise ValueError(f"from 1 to {MOST:,} episodes are played, at least one at once, not {episodes:,}, {batch:,}")
    to_play = [(target or 0.0, number) for target in targets for number in range(episodes)]
    reached: list[float] = []
    with Rest(model), progress("playing", len(to_play), "episodes") as advance:
        for first in range(0, len(to_play), batch):
            side_by_side = to_play[first : first + batch]
            reached += _play_batch(model, side_by_side, seed)
            advance(len(side_by_side))
    rows = np.array(reached).reshape(len(targets), episodes)
    return [
        Played(None if target is None else float(target), tuple(map(float, row)))
        for target, row in zip(targets, rows, strict=True)
    ]


def _play_batch(model: Decision, episodes: list[tuple[float, int]], seed: int) -> list[float]:
    """The returns reached in episodes played side by side, given (return asked for, number of the episode) of each."""
    returns = np.array([target for target, _ in episodes], np.float32)
    draws = [np.random.default_rng((seed, number)) for _, number in episodes]
    rewards, _, _ = roll(model, returns, draws)
    return [float(total) for total in rewards.sum(0)]


@torch.no_grad()
def roll(model: Decision, returns: Any, draws: list[np.random.Generator]) -> tuple[Any, Any, "Past"]:
    """Plays N episodes side by side, given the return asked of each (N,), and the generator that each draws from.

    Returns the rewards (T, N), which steps (T, N) were played, and what the model has last read.
    """
    config = model.config
    environment = config.environment
    simulators = [open_environment(environment.name) for _ in draws]
    state = np.stack(
        [simulator.reset(seed=int(draw.integers(2**31)))[0] for simulator, draw in zip(simulators, draws, strict=True)]
    )
    returns_to_go = returns.copy()
    running = np.arange(len(draws))  # the numbers of the episodes that have not ended
    past = Past(environment, config.context, len(draws))
    from_state = model.reads_on and environment.limit is not None and environment.limit <= config.context
    memory: Layers | None = None
    rewards: list[Any] = []
    played: list[Any] = []
    step = 0
    while len(running):
        require_end(environment.name, step, config.vocab)
        past.begin_step(returns_to_go, state)
        if from_state:
            actions, memory = model.next_action(**past.newest(step, model.device), memory=memory)
            actions = actions[torch.from_numpy(running).to(model.device)]
        else:
            actions = model(**past.window(running, step, model.device))[:, -1]
        chosen = _choose_actions(actions.double().cpu(), environment, [draws[number] for number in running])
        past.choose(running, chosen)
        rewards.append(np.zeros(len(draws)))
        played.append(np.isin(np.arange(len(draws)), running))
        ended = np.zeros(len(running), bool)
        for row, number in enumerate(running):
            action = chosen[row] if environment.continuous else int(chosen[row])
            state[number], reward, terminated, truncated, _ = simulators[number].step(action)
            rewards[-1][number] = float(reward)
            returns_to_go[number] -= 0 if config.returns == "end" else float(reward)
            ended[row] = terminated or truncated
        running = running[~ended]
        step += 1
    for simulator in simulators:
        simulator.close()
    return np.stack(rewards), np.stack(played), past


def _choose_actions(predicted: torch.Tensor, environment: Environment, draws: list[np.random.Generator]) -> Any:
    """The action of each row, as the environment takes it, from what the model predicts (N, A): logits or numbers."""
    if environment.continuous:
        return environment.unscale_actions(predicted.numpy())
    cumulative = predicted.softmax(-1).cumsum(-1).numpy()
    u = np.array([draw.random() for draw in draws])
    return np.minimum((cumulative < u[:, None]).sum(1), environment.actions - 1)


@final
class Past:
    """The last steps of some episodes, as a model reads them."""

    def __init__(self, environment: Environment, context: int, rows: int) -> None:
        self.environment = environment
        self.context = context
        if environment.continuous:
            self._empty: Any = np.zeros((rows, environment.actions), np.float32)
        else:
            self._empty = np.zeros(rows, int)
        self._returns: list[Any] = []
        self._states: list[Any] = []
        self._actions: list[Any] = []

    def begin_step(self, returns: Any, state: Any) -> None:
        """Adds a step: the returns asked for from it on (N,), and its state (N, S); its action is not chosen yet."""
        for steps, new in ((self._returns, returns), (self._states, state), (self._actions, self._empty)):
            steps.append(new.copy())
            del steps[: -self.context]

    def choose(self, rows: Any, chosen: Any) -> None:
        """Sets the actions of the last step in some rows, given as the environment takes them."""
        self._actions[-1][rows] = self.environment.scale_actions(chosen) if self.environment.continuous else chosen

    def newest(self, step: int, device: torch.device) -> dict[str, Any]:
        """What `Decision.next_action` reads: step number `step`, from 0, in all rows, and the actions before it."""
        before = torch.from_numpy(self._actions[-2]).to(device) if step else None
        numbers = np.full(len(self._returns[-1]), step)
        arrays = {"returns": self._returns[-1], "states": self._states[-1], "ids": numbers}
        return {"before": before, **{name: torch.from_numpy(array).to(device) for name, array in arrays.items()}}

    def window(self, rows: Any, step: int, device: torch.device) -> dict[str, torch.Tensor]:
        """What a model is called with to choose the actions of step number `step`, from 0, in some rows."""
        stacked = {"returns": self._returns, "states": self._states, "actions": self._actions}
        arrays = {name: np.stack([array[rows] for array in steps], 1) for name, steps in stacked.items()}
        length = len(self._returns)
        arrays["ids"] = np.broadcast_to(np.arange(step - length + 1, step + 1), (len(rows), length)).copy()
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

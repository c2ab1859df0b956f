"""A Decision Transformer plays: it is asked for a return, and the return that it reaches is counted.

    R̂_1 = the return that is asked for,   R̂_{t+1} = R̂_t - reward_t       (R̂_t = R̂_1 where it learned `returns=end`)
    a_t ~ p(a | the last `context` steps up to R̂_t, s_t), or the numbers that it predicts

Where the window holds whole episodes, the model reads them on step by step, from a state.

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
from seqloom.data.episodes import Environment, opened, require_end
from seqloom.models.decision import Decision, Layers

MOST = 10**5
"""episodes of one call"""


@final
@dataclass(frozen=True)
class Played:
    """The returns that a model reached when it was asked for one."""

    asked: float
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


def play(model: Decision, returns: Sequence[float], episodes: int, *, batch: int = 64, seed: int = 0) -> list[Played]:
    """The model plays so many episodes for each return; `batch` of them are played at once.

    Episode n begins in the same state for every return. ValueError for a return that is no number, where there is
    nothing to play, and for an episode without end.
    """
    if not isinstance(model, Decision):
        raise ValueError(f"a model of kind {model.config.kind} plays no episodes: use one of model.kind=decision")
    if not returns or not all(math.isfinite(asked) for asked in returns):
        raise ValueError(f"returns are finite numbers, at least one, not {list(returns)}")
    if not 1 <= episodes * len(returns) <= MOST or batch < 1:
        raise ValueError(f"from 1 to {MOST:,} episodes are played, at least one at once, not {episodes:,}, {batch:,}")
    asked = [(target, number) for target in returns for number in range(episodes)]
    learning = model.training
    model.eval()
    reached: list[float] = []
    try:
        with torch.no_grad(), progress("playing", len(asked), "episodes") as advance:
            for first in range(0, len(asked), batch):
                part = asked[first : first + batch]
                reached += _together(model, part, seed)
                advance(len(part))
    finally:
        model.train(learning)
    rows = np.array(reached).reshape(len(returns), episodes)
    return [Played(float(target), tuple(map(float, row))) for target, row in zip(returns, rows, strict=True)]


def _together(model: Decision, asked: list[tuple[float, int]], seed: int) -> list[float]:
    """The returns reached in episodes played at once, given (return asked for, number of the episode) of each."""
    returns = np.array([value for value, _ in asked], np.float32)
    rewards, _, _ = roll(model, returns, [np.random.default_rng((seed, number)) for _, number in asked])
    return [float(total) for total in rewards.sum(0)]


@torch.no_grad()
def roll(model: Decision, wanted: Any, draws: list[np.random.Generator]) -> tuple[Any, Any, "Past"]:
    """Episodes that are played side by side, given what is wanted of each (N,), and what each draws from.

    Returns the rewards (T, N), which steps (T, N) were played, and what the model has last read.
    """
    config = model.config
    environment = config.environment
    mazes = [opened(environment.name) for _ in draws]
    state = np.stack([maze.reset(seed=int(draw.integers(2**31)))[0] for maze, draw in zip(mazes, draws, strict=True)])
    wanted, going = wanted.copy(), np.arange(len(draws))
    past = Past(environment, config.context, len(draws))
    whole = model.reads_on and environment.limit is not None and environment.limit <= config.context
    memory: Layers | None = None
    rewards: list[Any] = []
    played: list[Any] = []
    step = 0
    while len(going):
        require_end(environment.name, step, config.vocab)
        past.see(wanted, state)
        if whole:
            actions, memory = model.next_action(**past.newest(step, model.device), memory=memory)
            actions = actions[torch.from_numpy(going).to(model.device)]
        else:
            actions = model(**past.window(going, step, model.device))[:, -1]
        chosen = _chosen(actions.double().cpu(), environment, [draws[number] for number in going])
        past.act(going, chosen)
        rewards.append(np.zeros(len(draws)))
        played.append(np.isin(np.arange(len(draws)), going))
        ended = np.zeros(len(going), bool)
        for row, number in enumerate(going):
            action = chosen[row] if environment.continuous else int(chosen[row])
            state[number], reward, terminated, truncated, _ = mazes[number].step(action)
            rewards[-1][number] = float(reward)
            wanted[number] -= 0 if config.returns == "end" else float(reward)
            ended[row] = terminated or truncated
        going = going[~ended]
        step += 1
    for maze in mazes:
        maze.close()
    return np.stack(rewards), np.stack(played), past


def _chosen(predicted: torch.Tensor, environment: Environment, draws: list[np.random.Generator]) -> Any:
    """The action of each row (N, A) of what a model predicts, as the environment takes it."""
    if environment.continuous:
        return environment.unscaled(predicted.numpy())
    sums = predicted.softmax(-1).cumsum(-1).numpy()
    drawn = np.array([draw.random() for draw in draws])
    return np.minimum((sums < drawn[:, None]).sum(1), environment.actions - 1)


@final
class Past:
    """The last steps of some episodes, as a model reads them."""

    def __init__(self, environment: Environment, context: int, rows: int) -> None:
        self.environment = environment
        self.context = context
        action = np.zeros((rows, environment.actions), np.float32) if environment.continuous else np.zeros(rows, int)
        self._empty = action
        self._wanted: list[Any] = []
        self._states: list[Any] = []
        self._actions: list[Any] = []

    def see(self, wanted: Any, state: Any) -> None:
        """A step begins: what is wanted from it on (N,), and its state (N, S); its action is not chosen yet."""
        for steps, new in ((self._wanted, wanted), (self._states, state), (self._actions, self._empty)):
            steps.append(new.copy())
            del steps[: -self.context]

    def act(self, rows: Any, chosen: Any) -> None:
        """The actions of the step for some rows, as the environment takes them."""
        self._actions[-1][rows] = self.environment.scaled(chosen) if self.environment.continuous else chosen

    def newest(self, step: int, device: torch.device) -> dict[str, Any]:
        """The step of a number from 0 in all rows, and the actions before it: what `Decision.next_action` reads."""
        before = torch.from_numpy(self._actions[-2]).to(device) if step else None
        read = {"returns": self._wanted[-1], "states": self._states[-1], "ids": np.full(len(self._wanted[-1]), step)}
        return {"before": before, **{name: torch.from_numpy(array).to(device) for name, array in read.items()}}

    def window(self, rows: Any, step: int, device: torch.device) -> dict[str, torch.Tensor]:
        """What a model is called with, for some rows, at the step of a number from 0."""
        stacked = {"returns": self._wanted, "states": self._states, "actions": self._actions}
        arrays = {name: np.stack([array[rows] for array in steps], 1) for name, steps in stacked.items()}
        length = len(self._wanted)
        arrays["ids"] = np.broadcast_to(np.arange(step - length + 1, step + 1), (len(rows), length)).copy()
        return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}

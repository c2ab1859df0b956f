"""Environments of `gymnasium` by name, and their sizes, which a model needs.

CartPole-v1, MountainCar-v0, …     any registered environment whose observations are vectors
TMaze-LENGTH                       the T-maze (`t_maze`) of 10 to 100 steps; TMaze is TMaze-10

Actions are discrete (one of several), or continuous (a vector of bounded numbers).
"""

import re
from collections.abc import Callable
from typing import Annotated, Any, final

import numpy as np
import numpy.typing as npt
from pydantic import Field

from seqloom.core.config import Config, suggestion
from seqloom.data.episodes.t_maze import SHORTEST, t_maze

Numbers = Annotated[tuple[float, ...], Field(strict=False)]
"""the type of a field that takes a list of numbers"""
MAZE = "TMaze"


@final
class Environment(Config):
    """The sizes and bounds of an environment, as a model needs them; all of them follow from the data."""

    name: str = Field("", description="the name of the environment")
    states: int = Field(1, ge=1, le=2**16, description="dimensions of a state")
    actions: int = Field(2, ge=1, le=2**16, description="number of actions, or dimensions of a continuous action")
    continuous: bool = Field(False, description="whether an action is a real vector instead of a choice")
    low: Numbers = Field((), description="lower bounds of a continuous action")
    high: Numbers = Field((), description="upper bounds of a continuous action")
    limit: int | None = Field(None, ge=1, description="largest number of steps of an episode, if limited")

    def scale_actions(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """Actions (…, A) from `low` … `high` to -1 … 1."""
        low, high = np.array(self.low), np.array(self.high)
        return ((2 * actions - low - high) / (high - low)).astype(np.float32)

    def unscale_actions(self, actions: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
        """The inverse of `scale_actions`; values beyond -1 … 1 are clipped."""
        low, high = np.array(self.low), np.array(self.high)
        return (low + (np.clip(actions, -1, 1) + 1) / 2 * (high - low)).astype(np.float32)

    def at_random(self, draws: np.random.Generator) -> Callable[[Any], Any]:
        """The policy that draws every action uniformly."""
        if not self.continuous:
            return lambda state: int(draws.integers(self.actions))
        return lambda state: draws.uniform(self.low, self.high).astype(np.float32)


def gymnasium() -> Any:
    """The module `gymnasium`. ValueError where it is not installed."""
    try:
        import gymnasium as library
    except ImportError:
        raise ValueError("gymnasium is not installed: pip install 'seqloom[agents]'") from None
    return library


def open_environment(name: str) -> Any:
    """The environment of this name, started in this process. ValueError for an unknown name, with similar ones."""
    library = gymnasium()
    if name == MAZE or name.startswith(f"{MAZE}-"):
        return _maze(library, name)
    if name not in library.registry:
        raise ValueError(f"unknown environment {name[:100]!r}; {suggestion(name, [MAZE, *library.registry])}")
    try:
        return library.make(name)
    except Exception as error:  # an environment may import any package and raise any error
        raise ValueError(f"gymnasium cannot start {name} ({' '.join(str(error).split())[:200]})") from None


def _maze(library: Any, name: str) -> Any:
    length = name.removeprefix(MAZE).removeprefix("-")
    if not re.fullmatch(r"\d{1,9}", length) and length:
        raise ValueError(f"{name[:100]}: say {MAZE}-LENGTH, as {MAZE}-30")
    return t_maze(library, int(length or SHORTEST))


def describe_environment(name: str, environment: Any) -> Environment:
    """The sizes of an environment. ValueError where its states or actions are of a kind that models cannot read."""
    library = gymnasium()
    states, actions = environment.observation_space, environment.action_space
    spaces = library.spaces
    if not isinstance(states, spaces.Box) or len(states.shape) != 1:
        raise ValueError(f"{name}: its states are {states}, and only vectors of numbers can be read")
    limit = None if environment.spec is None else environment.spec.max_episode_steps
    sizes: dict[str, Any] = {"name": name, "states": states.shape[0], "limit": limit}
    if isinstance(actions, spaces.Discrete) and actions.start == 0:
        return Environment(**sizes, actions=int(actions.n))
    if isinstance(actions, spaces.Box) and len(actions.shape) == 1 and actions.is_bounded():
        bounds: dict[str, Any] = {"low": tuple(map(float, actions.low)), "high": tuple(map(float, actions.high))}
        return Environment(**sizes, actions=actions.shape[0], continuous=True, **bounds)
    raise ValueError(
        f"{name}: its actions are {actions}, and only one of several (from 0) or bounded vectors can be chosen"
    )

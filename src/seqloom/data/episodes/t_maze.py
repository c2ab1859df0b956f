"""The T-maze: a cue at the start, a corridor, and a junction at its end where the cue says which turn is right.

    state   (cue, junction)     cue: -1 or 1 at the start, 0 after it;   junction: 1 at the end of the corridor
    action  0 forward, 1 turn to -1, 2 turn to 1                          a turn before the junction changes nothing
    reward  1 for the turn that the cue names, 0 otherwise                a turn at the junction ends the episode

The junction is `length` steps from the start. After 4 `length` steps the episode ends even without a turn.

Source: Bakker, Reinforcement Learning with Long Short-Term Memory, NeurIPS 2001, section 4.1. What differs: three
actions for four directions, rewards 1 and 0 for 4 and -0.1, and no reward for standing still.
"""

from functools import cache
from typing import Any

import numpy as np

SHORTEST, LONGEST = 10, 100
"""allowed lengths of the corridor, in steps"""
FORWARD = 0
PATIENCE = 4
"""an episode ends after this many times the length, in steps"""


def t_maze(library: Any, length: int) -> Any:
    """The T-maze with a corridor of `length` steps, given the module `gymnasium`. ValueError for other lengths."""
    if not SHORTEST <= length <= LONGEST:
        raise ValueError(f"a T-maze has a length of {SHORTEST} to {LONGEST}, not {length:,}")
    spec = library.envs.registration.EnvSpec(
        id=f"TMaze-{length}",
        entry_point=_maze(library),
        max_episode_steps=PATIENCE * length,
        reward_threshold=1.0,
        disable_env_checker=True,
        kwargs={"length": length},
    )
    return spec.make()


@cache
def _maze(library: Any) -> Any:
    """The class of the maze, which derives from `gymnasium.Env`."""

    class TMaze(library.Env):  # type: ignore[misc]  # known only once gymnasium is imported
        """A corridor of `length` steps."""

        metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  # the library's own form

        def __init__(self, length: int) -> None:
            self.length = length
            self.observation_space = library.spaces.Box(-1.0, 1.0, (2,), np.float32)
            self.action_space = library.spaces.Discrete(3)
            self.cue, self.position = 1, 0

        def reset(
            self, *, seed: int | None = None, options: dict[str, Any] | None = None
        ) -> tuple[Any, dict[str, Any]]:
            super().reset(seed=seed)
            self.cue, self.position = (1 if self.np_random.random() < 0.5 else -1), 0
            return self._observation(), {}

        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            if self.position < self.length:
                self.position += int(action) == FORWARD
                return self._observation(), 0.0, False, False, {}
            if int(action) == FORWARD:
                return self._observation(), 0.0, False, False, {}
            return self._observation(), float(2 * int(action) - 3 == self.cue), True, False, {}

        def _observation(self) -> Any:
            return np.array([self.cue if self.position == 0 else 0, self.position == self.length], np.float32)

    return TMaze

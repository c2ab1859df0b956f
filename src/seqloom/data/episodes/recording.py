"""Records episodes: a policy plays an environment, each episode from its own seed."""

from typing import Any

import numpy as np

from seqloom.core.progress import progress
from seqloom.data.episodes.environment import described, opened
from seqloom.data.episodes.policies import policy
from seqloom.data.episodes.store import Episodes

LONGEST = 10_000
"""steps after which an episode counts as endless"""


def record(name: str, by: str, count: int, seed: int) -> Episodes:
    """Plays `count` episodes of environment `name` with policy `by`; the result depends on the arguments alone.

    ValueError for unknown names, and for an episode that does not end.
    """
    environment = opened(name)
    sizes = described(name, environment)
    policy(by, sizes, np.random.default_rng(0))  # raises for a wrong name before anything is played
    states: list[Any] = []
    actions: list[Any] = []
    rewards: list[float] = []
    starts: list[int] = []
    with progress("episodes", count, "episodes") as advance:
        for episode in range(count):
            starts.append(len(states))
            draws = np.random.default_rng((seed, episode))
            act = policy(by, sizes, draws)
            state, _ = environment.reset(seed=int(draws.integers(2**31)))
            ended = False
            while not ended:
                require_end(name, len(states) - starts[-1])
                action = act(state)
                states.append(np.asarray(state, np.float32))
                actions.append(action)
                state, reward, terminated, truncated, _ = environment.step(action)
                rewards.append(float(reward))
                ended = bool(terminated or truncated)
            advance(note=f"{len(states):,} steps")
    environment.close()
    return Episodes(
        states=np.stack(states),
        actions=np.array(actions, np.float32 if sizes.continuous else np.int64),
        rewards=np.array(rewards, np.float64),
        starts=np.array(starts, np.int64),
        environment=sizes,
    )


def require_end(name: str, steps: int, most: int = LONGEST) -> None:
    """ValueError where an episode has not ended after `most` steps."""
    if steps >= most:
        raise ValueError(
            f"{name}: an episode without end: it goes on after {most:,} steps; register it with max_episode_steps"
        )

"""Records episodes, and keeps them in the cache under their name, episodes:ENV:POLICY[:COUNT[:SEED]].

A policy plays an environment, each episode from its own seed. What a name records is recorded once and then read.
"""

import hashlib
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.core.progress import progress
from seqloom.core.seeds import require_seed
from seqloom.data import cache as cached
from seqloom.data.episodes.environment import describe_environment, open_environment
from seqloom.data.episodes.policies import policy
from seqloom.data.episodes.store import Episodes

PREFIX = "episodes"
COUNT = 1000
"""episodes to record where the name has no COUNT"""
MOST = 10**5
_FORMAT = 1  # raise it when what is recorded under a name changes
LONGEST = 10_000
"""steps after which an episode counts as endless"""


def read_episodes(source: str, *, cache: str | Path | None = None) -> Episodes:
    """The episodes of a name, from the cache if they were recorded before.

    Raises ValueError for an invalid name, and as `record` does. A damaged file is recorded again, with a warning.
    """
    prefix, *words = source.split(":")
    numbers = words[2:]
    numeric = all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers)
    if prefix != PREFIX or len(words) < 2 or len(numbers) > 2 or not numeric:
        raise ValueError(
            f"{source[:100]}: episodes are named {PREFIX}:ENV:POLICY[:COUNT[:SEED]], as {PREFIX}:CartPole-v1:mixed"
        )
    count, seed = (int(number) for number in (*numbers, *(str(COUNT), "0")[len(numbers) :]))
    if not 1 <= count <= MOST:
        raise ValueError(f"{source}: from 1 to {MOST:,} episodes can be recorded, not {count:,}")
    require_seed(seed)
    return _load_or_record(words[0], words[1], count, seed, cached.folder(cache))


@lru_cache(maxsize=2)  # a run asks for its sizes, for its batches and for its held-out part
def _load_or_record(name: str, policy_name: str, count: int, seed: int, cache: Path) -> Episodes:
    """The episodes from the cache, or recorded now and stored there."""
    key = hashlib.sha256(f"{_FORMAT}\n{name}\n{policy_name}\n{count}\n{seed}".encode()).hexdigest()
    path = cache / PREFIX / f"{key}.episodes"
    if path.is_file():
        try:
            return Episodes.open(path)
        except ValueError as error:
            print(f"{error}; recording it again", file=sys.stderr)
    episodes = record(name, policy_name, count, seed)
    episodes.save(path)
    return episodes


def record(name: str, policy_name: str, count: int, seed: int) -> Episodes:
    """Plays `count` episodes of environment `name` with a policy; the result depends on the arguments alone.

    ValueError for unknown names, and for an episode that does not end.
    """
    environment = open_environment(name)
    sizes = describe_environment(name, environment)
    policy(policy_name, sizes, np.random.default_rng(0))  # raises for a wrong name before anything is played
    states: list[Any] = []
    actions: list[Any] = []
    rewards: list[float] = []
    starts: list[int] = []
    with progress("episodes", count, "episodes") as advance:
        for episode in range(count):
            starts.append(len(states))
            draws = np.random.default_rng((seed, episode))
            act = policy(policy_name, sizes, draws)
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


def require_end(name: str, steps: int, limit: int = LONGEST) -> None:
    """ValueError where an episode has not ended after `limit` steps."""
    if steps >= limit:
        raise ValueError(
            f"{name}: an episode without end: it goes on after {limit:,} steps; register it with max_episode_steps"
        )

"""Episodes of agents: a policy plays an environment of `gymnasium`, and what it did is recorded in the cache.

    episodes:ENV:POLICY[:COUNT[:SEED]]      such as episodes:CartPole-v1:mixed or episodes:TMaze-30:scripted:500:1

Recording and playing need the extra `seqloom[agents]`; recorded episodes are read without it.
"""

from seqloom.data.episodes.environment import Environment, describe_environment, open_environment
from seqloom.data.episodes.recording import PREFIX, read_episodes, require_end
from seqloom.data.episodes.store import Episodes, sides

__all__ = [
    "PREFIX",
    "Environment",
    "Episodes",
    "describe_environment",
    "open_environment",
    "read_episodes",
    "require_end",
    "sides",
]

"""Episodes of agents that act: recorded by a policy in an environment of `gymnasium`, kept in the cache.

    episodes:ENV:POLICY[:COUNT[:SEED]]         as episodes:CartPole-v1:mixed or episodes:TMaze-30:scripted:500:1

Needs the extra `seqloom[agents]` to record and to play; what was recorded is read without it.
"""

from seqloom.data.episodes.environment import Environment, described, opened
from seqloom.data.episodes.named import PREFIX, read_episodes
from seqloom.data.episodes.recording import require_end
from seqloom.data.episodes.store import Episodes, sides

__all__ = ["PREFIX", "Environment", "Episodes", "described", "opened", "read_episodes", "require_end", "sides"]

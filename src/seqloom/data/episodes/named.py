"""Episodes by name, episodes:ENV:POLICY[:COUNT[:SEED]], which are recorded once and then read from the cache."""

import hashlib
import sys
from functools import lru_cache
from pathlib import Path

from seqloom.core.seeds import require_seed
from seqloom.data import cache as cached
from seqloom.data.episodes.recording import record
from seqloom.data.episodes.store import Episodes

PREFIX = "episodes"
COUNT = 1000
"""episodes to record where the name has no COUNT"""
MOST = 10**5
_FORMAT = 1  # raise it when what is recorded under a name changes


def read_episodes(source: str, *, cache: str | Path | None = None) -> Episodes:
    """The episodes of a name, from the cache if they were recorded before.

    Raises ValueError for an invalid name, and as `record` does. A damaged file is recorded again, with a warning.
    """
    prefix, *words = source.split(":")
    numbers = words[2:]
    plain = all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers)
    if prefix != PREFIX or len(words) < 2 or len(numbers) > 2 or not plain:
        raise ValueError(
            f"{source[:100]}: episodes are named {PREFIX}:ENV:POLICY[:COUNT[:SEED]], as {PREFIX}:CartPole-v1:mixed"
        )
    count, seed = (int(number) for number in (*numbers, *(str(COUNT), "0")[len(numbers) :]))
    if not 1 <= count <= MOST:
        raise ValueError(f"{source}: from 1 to {MOST:,} episodes can be recorded, not {count:,}")
    require_seed(seed)
    return _recorded(words[0], words[1], count, seed, cached.folder(cache))


@lru_cache(maxsize=2)  # a run asks for its sizes, for its batches and for its held-out part
def _recorded(name: str, by: str, count: int, seed: int, cache: Path) -> Episodes:
    key = hashlib.sha256(f"{_FORMAT}\n{name}\n{by}\n{count}\n{seed}".encode()).hexdigest()
    path = cache / PREFIX / f"{key}.episodes"
    if path.is_file():
        try:
            return Episodes.open(path)
        except ValueError as error:
            print(f"{error}; recording it again", file=sys.stderr)
    episodes = record(name, by, count, seed)
    episodes.save(path)
    return episodes

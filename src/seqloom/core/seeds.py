"""Seeds: whole numbers below 2^32, which is what torch's CPU generator reads of a seed.

A larger one would give the weights of another: 0 and 2^32 are the same to it.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

LIMIT = 2**32
MOST = 10_000
"""seeds that one command runs at most"""

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=LIMIT)]


def require_seed(seed: int) -> None:
    """ValueError for a seed that is no whole number of 0 … 2^32 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < LIMIT:
        raise ValueError(f"a seed must be a whole number of 0 … {LIMIT - 1} (2^32 - 1), not {seed!r}")


def require_count(seeds: int, name: str = "seeds") -> None:
    """ValueError unless so many seeds, 0 … `seeds` - 1, can be run."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MOST:
        raise ValueError(f"{name} must be at least 1 and at most {MOST:,}, not {seeds!r}")

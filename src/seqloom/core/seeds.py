"""Checks seeds, which are whole numbers below 2^32: torch's CPU generator reads no more bits of a seed.

A larger seed would repeat the random numbers of a smaller one, such as 2^32 those of 0.
"""

from typing import Annotated, TypeAlias

from pydantic import Field

LIMIT = 2**32
MOST = 10_000
"""the most seeds that one command runs"""

Seed: TypeAlias = Annotated[int, Field(ge=0, lt=LIMIT)]


def require_seed(seed: int) -> None:
    """Raises ValueError unless the seed is an int of 0 … 2^32 - 1."""
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < LIMIT:
        raise ValueError(f"a seed must be a whole number of 0 … {LIMIT - 1} (2^32 - 1), not {seed!r}")


def require_count(seeds: int, name: str = "seeds") -> None:
    """Raises ValueError unless the seeds 0 … `seeds` - 1 are valid and not too many."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 1 <= seeds <= MOST:
        raise ValueError(f"{name} must be at least 1 and at most {MOST:,}, not {seeds!r}")

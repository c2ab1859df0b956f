"""Commands of studies run in this process, with a cache of the session's own, as those of tests/cli."""

from tests.cli.conftest import _own_cache, seqloom, trained

__all__ = ["_own_cache", "seqloom", "trained"]

"""The variants of Triton's kernels: those that were found best before, else the first; timed only where it is said.

    take_stored_variants()       from now on no kernel is tuned
    with tuning():               but in here: what is found is stored in Triton's cache, and travels with it (`caches`)

flash-linear-attention times up to 50 variants of a kernel at its first call with new sizes, each of which is compiled:
minutes, which a call of the queue does not have. All variants compute the same sums.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from typing import Any

_untimed: list[tuple[Any, Any]] = []
"""kernels with sizes whose first variant was taken"""
_tuning = False


def take_stored_variants(tuner: Any = None) -> None:
    """Makes kernels that keep their results, as fla's do, tune no more; `tuner` is Triton's class of them.

    It does nothing where Triton is not installed.
    """
    if tuner is None:
        if find_spec("triton") is None:
            return
        tuner = import_module("triton.runtime.autotuner").Autotuner
    stored = tuner.check_disk_cache
    if getattr(stored, "takes_first", False):
        return

    def stored_or_first(self: Any, key: Any, configs: Any, time_all: Callable[[], object]) -> bool:
        def take_first() -> None:
            raise _NoneStored

        try:
            return bool(stored(self, key, configs, time_all if _tuning else take_first))
        except _NoneStored:
            self.cache[key] = configs[0]
            self.configs_timings = {}
            _untimed.append((self, key))
            return True

    stored_or_first.takes_first = True  # type: ignore[attr-defined]
    tuner.check_disk_cache = stored_or_first


@contextmanager
def tuning() -> Iterator[None]:
    """Inside it kernels are tuned, those of which the first variant was taken too."""
    global _tuning  # noqa: PLW0603  # Triton's kernels are the process's
    for kernel, key in _untimed:
        kernel.cache.pop(key, None)
    _untimed.clear()
    before, _tuning = _tuning, True
    try:
        yield
    finally:
        _tuning = before


class _NoneStored(Exception):
    """No variant of a kernel is stored for these sizes."""

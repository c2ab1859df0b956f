"""Mixers of other installed packages: entry points of the group `seqloom.mixers`, each a module that registers its own.

    [project.entry-points."seqloom.mixers"]        # in the package's pyproject.toml
    my_mixer = "my_package.my_mixer"

They are imported when mixers are first listed, or when a name is unknown to this package. A plugin that fails is
reported in one line on standard error and registers nothing; the others are still loaded.
"""

import os
import sys
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from seqloom.core.mixer_config import kinds, unregister

GROUP = "seqloom.mixers"
_loaded: set[str] = set()
"""`EntryPoint.value` of each plugin that was imported, or whose import failed"""


def load_plugins() -> None:
    """Imports every plugin that has not been tried yet."""
    for point in _points(tuple((folder, _changed_at(folder)) for folder in sys.path)):
        if point.value not in _loaded:
            _loaded.add(point.value)
            _load(point)


@lru_cache(maxsize=1)
def _points(folders: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """The entry points of `GROUP`, cached until a folder of `sys.path` changes: reading every package takes 10 ms."""
    return tuple(entry_points(group=GROUP))


def _changed_at(folder: str) -> int:
    """When an entry of the folder was last added or removed, in ns; 0 if there is no such folder."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _load(point: EntryPoint) -> None:
    registered = kinds()
    try:
        point.load()
    except (Exception, SystemExit) as error:  # importing a plugin can raise anything
        for name in kinds().keys() - registered.keys():
            unregister(name)
        package = point.dist.name if point.dist is not None else "an installed package"
        message = " ".join(str(error).split()) or "without a message"
        print(
            f"seqloom: the mixers of {package} ({point.value}) are left out: {type(error).__name__}: {message}",
            file=sys.stderr,
        )

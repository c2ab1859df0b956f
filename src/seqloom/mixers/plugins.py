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

from seqloom.core.error_text import reason
from seqloom.core.mixer_config import registered_kinds, restore

GROUP = "seqloom.mixers"
_loaded: set[str] = set()
"""`EntryPoint.value` of each plugin that was imported, or whose import failed"""
_complete: set[str] = set()
"""the kinds of plugins that were imported whole: one plugin may import the others, by asking for all kinds"""


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
    """Imports a plugin. One that fails, or that takes away a kind of others, leaves the registry as it was."""
    before = registered_kinds()
    try:
        point.load()
        if taken := sorted(name for name, config in before.items() if registered_kinds().get(name) is not config):
            raise ValueError(f"it takes the name of {', '.join(taken)}, which is a mixer already")
    except (Exception, SystemExit) as error:  # importing a plugin can raise anything
        others = {
            name: config for name, config in registered_kinds().items() if name in _complete and name not in before
        }
        restore({**before, **others})
        package = point.dist.name if point.dist is not None else "an installed package"
        print(f"seqloom: the mixers of {package} ({point.value}) are left out: {reason(error)}", file=sys.stderr)
    else:
        _complete.update(registered_kinds().keys() - before.keys())

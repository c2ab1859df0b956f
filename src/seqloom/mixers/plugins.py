"""Mixers of other installed packages: entry points of the group `seqloom.mixers`, each a module that registers its own.

    [project.entry-points."seqloom.mixers"]        # in the package's pyproject.toml
    my_mixer = "my_package.my_mixer"

They are imported when mixers are first listed, or when a name is asked for that is not one of ours. A plugin that fails
is reported in one line on standard error, registers nothing, and the others load.
"""

import sys
from importlib.metadata import EntryPoint, entry_points

from seqloom.core.mixer_config import kinds, unregister

GROUP = "seqloom.mixers"
_loaded: set[str] = set()
"""values of the entry points that were tried"""


def load_plugins() -> None:
    """Imports every plugin that has not been tried yet."""
    for point in entry_points(group=GROUP):
        if point.value not in _loaded:
            _loaded.add(point.value)
            _load(point)


def _load(point: EntryPoint) -> None:
    before = kinds()
    try:
        point.load()
    except (Exception, SystemExit) as error:  # whatever the plugin does when it is imported
        for name in kinds().keys() - before.keys():
            unregister(name)
        package = point.dist.name if point.dist is not None else "an installed package"
        why = " ".join(str(error).split()) or "without a message"
        print(
            f"seqloom: the mixers of {package} ({point.value}) are left out: {type(error).__name__}: {why}",
            file=sys.stderr,
        )

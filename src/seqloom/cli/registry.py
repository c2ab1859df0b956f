"""The mixers and the settings of a run, as registry.json has them: known without torch.

A mixer that this process registered by itself is described from its class. Of an installed package's mixer only the
name is known, by its entry point in the group `seqloom.mixers`: the package is imported when the mixer is used.
"""

import json
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

PLACE = Path(__file__).with_name("registry.json")
GROUP = "seqloom.mixers"


@cache
def read() -> dict[str, Any]:
    """The contents of registry.json."""
    contents: dict[str, Any] = json.loads(PLACE.read_text(encoding="utf-8"))
    return contents


def mixers() -> dict[str, dict[str, Any]]:
    """Every mixer by name, in the order of registration: family, summary, equation, source, traits, settings."""
    known = dict(read()["mixers"])
    if "seqloom.core.mixer" in sys.modules:  # others may have been registered since
        from seqloom.cli.described import described

        registered = sys.modules["seqloom.core.mixer"].kinds()
        known |= {name: described(config) for name, config in registered.items() if name not in known}
    return known


def installed() -> dict[str, str]:
    """The names of mixers of installed packages, each with its package's name; nothing is imported."""
    found = entry_points(group=GROUP)
    return {point.name: point.dist.name if point.dist else point.module for point in found}


def load(name: str) -> bool:
    """Imports an installed package's mixer, which registers itself; False where no package has one of that name.

    ValueError, in one line, where it cannot be imported or registers no mixer of its name.
    """
    if name not in installed():
        return False
    (point,) = list(entry_points(group=GROUP, name=name))[:1]
    try:
        point.load()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"the mixer {name!r} of {installed()[name]} cannot be imported ({error})") from None
    if name not in mixers():
        raise ValueError(f"{point.value} of {installed()[name]} registers no mixer {name!r}")
    return True


def run() -> list[dict[str, Any]]:
    """The settings of a run, each with those inside of it."""
    settings: list[dict[str, Any]] = read()["run"]
    return settings

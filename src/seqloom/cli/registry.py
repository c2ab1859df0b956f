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
    if "seqloom.mixers" in sys.modules:  # others may have been registered since
        from seqloom.cli.described import described

        registered = sys.modules["seqloom.mixers"].kinds()
        known |= {name: described(config) for name, config in registered.items() if name not in known}
    return known


def installed() -> dict[str, str]:
    """The names of mixers of installed packages, each with its package's name; nothing is imported."""
    found = entry_points(group=GROUP)
    return {point.name: point.dist.name if point.dist else point.module for point in found}


def run() -> list[dict[str, Any]]:
    """The settings of a run, each with those inside of it."""
    settings: list[dict[str, Any]] = read()["run"]
    return settings

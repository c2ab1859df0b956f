"""The mixers and the settings of a run, as registry.json has them: known without torch.

A mixer that this process registered by itself is described from its class. Installed packages are imported when all
mixers are listed, or one is named that is not one of ours (`seqloom.mixers.plugins`).
"""

import json
import sys
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

PATH = Path(__file__).with_name("registry.json")
GROUP = "seqloom.mixers"


@cache
def read() -> dict[str, Any]:
    """The contents of registry.json."""
    contents: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return contents


def mixers() -> dict[str, dict[str, Any]]:
    """Every mixer by name, in the order of registration: family, summary, equation, source, traits, settings."""
    known = dict(read()["mixers"])
    if "seqloom.core.mixer_config" in sys.modules:  # further ones may have been registered since
        from seqloom.cli.described import described

        registered = sys.modules["seqloom.core.mixer_config"].kinds()
        known |= {name: described(config) for name, config in registered.items() if name not in known}
    return known


def installed() -> dict[str, str]:
    """The entry points of installed packages by name, each with its package's name; nothing is imported."""
    points = entry_points(group=GROUP)
    return {point.name: point.dist.name if point.dist else point.module for point in points}


def load() -> None:
    """Imports the mixers of installed packages, which register under names of their own; nothing where none is."""
    if entry_points(group=GROUP):
        from seqloom.mixers.plugins import load_plugins

        load_plugins()


def run() -> list[dict[str, Any]]:
    """The settings of a run, each with those inside of it."""
    settings: list[dict[str, Any]] = read()["run"]
    return settings

"""The mixers and the settings of a run, as registry.json has them: known without torch.

A mixer that this process registered by itself is described from its class. Installed packages are imported when all
mixers are listed, or one is named that is not one of ours (`seqloom.mixers.plugins`).
"""

import json
import sys
from collections.abc import Iterable
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from seqloom.cli.elsewhere import describe
from seqloom.core.config import suggestion
from seqloom.core.error_text import reason
from seqloom.core.named_object import is_named_object

PATH = Path(__file__).with_name("registry.json")
GROUP = "seqloom.mixers"
_entries: dict[type[Any], dict[str, Any] | None] = {}
"""what `_describe_mixer` returned: a broken mixer is reported once"""


@cache
def read() -> dict[str, Any]:
    """The contents of registry.json."""
    contents: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
    return contents


def mixers() -> dict[str, dict[str, Any]]:
    """Every mixer by name, in the order of registration: family, summary, equation, source, traits, settings.

    One that cannot be described, since its own code fails, is left out with a line on standard error.
    """
    found = further()
    for name, config in found.items():
        if config not in _entries:
            _entries[config] = _describe_mixer(name, config)
    entries = {name: _entries[config] for name, config in found.items()}
    return {**read()["mixers"], **{name: entry for name, entry in entries.items() if entry is not None}}


def further() -> dict[str, type[Any]]:
    """The settings classes of mixers that were registered in this process and are not ours, by name."""
    if "seqloom.core.mixer_config" not in sys.modules:
        return {}
    registered = sys.modules["seqloom.core.mixer_config"].registered_kinds()
    return {name: config for name, config in registered.items() if name not in read()["mixers"]}


def mixer_settings(config: type[Any]) -> list[dict[str, Any]]:
    """The settings of such a class, without building its mixer, which may need another machine."""
    from seqloom.cli.described import settings

    return [setting for setting in settings(config) if setting["name"] != "kind"]


def unknown_mixer(kind: object, others: Iterable[str] = ()) -> str:
    """An error about a name that is no mixer: what another package calls so is here, or a similar name."""
    return f"unknown mixer {kind!r}; {describe(str(kind)) or suggestion(str(kind), [*mixers(), *others])}"


def setting_names(kind: str, others: Iterable[str] = ()) -> list[str]:
    """The settings of a mixer, or of a layer by its name `module:Class`.

    ValueError for an unknown one, with a similar name among the mixers and `others`.
    """
    if is_named_object(kind):
        from seqloom.mixers.layer_kind import layer_kind

        return [name for name in layer_kind(kind).model_fields if name != "kind"]
    if kind not in mixers():
        load()
    if kind not in mixers():
        raise ValueError(unknown_mixer(kind, others))
    return [setting["name"] for setting in mixers()[kind]["settings"]]


def _describe_mixer(name: str, config: type[Any]) -> dict[str, Any] | None:
    """The entry of a mixer; None, with a line, where its code fails when it is built, priced or drawn."""
    from seqloom.cli.described import describe_kind

    try:
        return describe_kind(config)
    except (Exception, SystemExit) as error:
        print(f"seqloom: the mixer {name!r} of {config.__module__} is left out: {reason(error)}", file=sys.stderr)
        return None


def installed_plugins() -> dict[str, str]:
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

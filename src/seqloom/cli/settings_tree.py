"""`seqloom settings`: every setting of a run and of each mixer, found by its path or a part of its name.

Reads registry.json, and loads no torch.
"""

import json
from collections.abc import Iterator
from typing import Any

from seqloom.cli import registry
from seqloom.cli.settings_text import lines
from seqloom.core.config import near

MIXER = "model.mixer"


def settings(path: str | None = None, *, as_json: bool = False) -> str:
    """The settings at a path or with that word in their names; all of them without one.

    ValueError, with what was near, where there is none.
    """
    if path is None:
        if as_json:
            return json.dumps({"run": registry.run(), "mixers": _by_mixer()}, ensure_ascii=False)
        note = f"of a mixer: seqloom settings she; of all: seqloom settings {MIXER}"
        return "\n".join([*lines(registry.run()), "", note])
    found = _found(path)
    if as_json:
        return json.dumps(found, ensure_ascii=False)
    parts: list[str] = []
    for place, tree in found.items():
        parts += [_title(place), *(lines(tree, 1) or ["  no settings"])]
    return "\n".join(parts)


def _found(path: str) -> dict[str, list[dict[str, Any]]]:
    """The settings by where they are: in a section of a run, or in a mixer `model.mixer (KIND)`."""
    trees = dict(_sections("", registry.run()))
    mixers = {f"{MIXER} ({kind})": tree for kind, tree in _by_mixer().items()}
    if path and path in trees:
        return {path: trees[path]}
    if of_kinds := {place: tree for place, tree in (trees | mixers).items() if place.startswith(f"{path} (")}:
        return {**_named(trees, path), **of_kinds}
    if f"{MIXER} ({path.removeprefix(f'{MIXER}.')})" in mixers:
        place = f"{MIXER} ({path.removeprefix(f'{MIXER}.')})"
        return {place: mixers[place]}
    everywhere = trees | mixers
    words = {f"{_dotted(place)}{each['name']}" for place, tree in everywhere.items() for each in tree}
    names = {word.rsplit(".", 1)[-1] for word in words}
    found = _named(everywhere, path) if path in words | names else _containing(everywhere, path)
    if not found:
        raise ValueError(f"no setting {path!r}; {near(path, {*words, *names, *trees, *_by_mixer()} - {''})}")
    return found


def _sections(place: str, tree: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each section with its settings: the run itself under "", then its parts."""
    yield place, [each for each in tree if "settings" not in each]
    for each in tree:
        name = f"{_dotted(place)}{each['name']}"
        if "settings" in each:
            yield from _sections(name, each["settings"])
        if "each" in each:
            yield f"{name}[]", each["each"]
        for kind, inner in each.get("kinds", {}).items():
            yield f"{name} ({kind})", inner


def _by_mixer() -> dict[str, list[dict[str, Any]]]:
    return {kind: mixer["settings"] for kind, mixer in registry.mixers().items()}


def _dotted(place: str) -> str:
    """What stands before a setting's name on the command line."""
    return f"{place.split(' ', maxsplit=1)[0]}." if place else ""


def _title(place: str) -> str:
    kind = place.partition(" ")[2].strip("()")
    return f"{place.split(' ', maxsplit=1)[0]}, of kind {kind}" if kind else place or "run"


def _named(trees: dict[str, list[dict[str, Any]]], path: str) -> dict[str, list[dict[str, Any]]]:
    """The settings of that name, or of that dotted path."""
    chosen = {
        place: [each for each in tree if path in (each["name"], f"{_dotted(place)}{each['name']}")]
        for place, tree in trees.items()
    }
    return {place: tree for place, tree in chosen.items() if tree}


def _containing(trees: dict[str, list[dict[str, Any]]], word: str) -> dict[str, list[dict[str, Any]]]:
    """The settings with that word in their names."""
    chosen = {place: [each for each in tree if word in each["name"]] for place, tree in trees.items()}
    return {place: tree for place, tree in chosen.items() if word and tree}

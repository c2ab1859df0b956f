"""`seqloom settings`: every setting of a run and of each mixer, searched by path or part of a name.

Reads registry.json, and loads no torch.
"""

import json
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any

from seqloom.cli import registry
from seqloom.core.config import suggestion

MIXER = "model.mixer"
SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "a multiple of"}


def settings_text(path: str | None = None, *, as_json: bool = False) -> str:
    """The settings at a path or with that word in their names; all of them without one.

    ValueError, with a similar name, where there is none.
    """
    if path is None:
        if as_json:
            return json.dumps({"run": registry.run(), "mixers": _by_mixer()}, ensure_ascii=False)
        note = f"of a mixer: seqloom settings she; of all: seqloom settings {MIXER}"
        return "\n".join([*lines(registry.run()), "", note])
    try:
        sections = _sections_of(path)
    except ValueError:
        if not registry.installed_plugins():
            raise
        registry.load()  # it may be a mixer of an installed package
        sections = _sections_of(path)
    if as_json:
        return json.dumps(sections, ensure_ascii=False)
    parts: list[str] = []
    for section, tree in sections.items():
        parts += [_title(section), *(lines(tree, 1) or ["  no settings"])]
    return "\n".join(parts)


def _sections_of(path: str) -> dict[str, list[dict[str, Any]]]:
    """The settings by section: in a section of a run, or in a mixer `model.mixer (KIND)`."""
    trees = dict(_sections("", registry.run()))
    mixers = {f"{MIXER} ({kind})": tree for kind, tree in _by_mixer().items()}
    if path and path in trees:
        return {path: trees[path]}
    all_sections = trees | mixers
    kind_sections = {section: tree for section, tree in all_sections.items() if section.startswith(f"{path} (")}
    if kind_sections:
        return {**_find_settings(trees, path), **kind_sections}
    mixer_section = f"{MIXER} ({path.removeprefix(f'{MIXER}.')})"
    if mixer_section in mixers:
        return {mixer_section: mixers[mixer_section]}
    paths = {
        f"{_dotted_prefix(section)}{setting['name']}" for section, tree in all_sections.items() for setting in tree
    }
    names = {dotted.rsplit(".", 1)[-1] for dotted in paths}
    sections = _find_settings(all_sections, path) if path in paths | names else _containing(all_sections, path)
    if not sections:
        raise ValueError(f"no setting {path!r}; {suggestion(path, {*paths, *names, *trees, *_by_mixer()} - {''})}")
    return sections


def _sections(section: str, tree: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Every section with its settings; the run itself is the section "", and comes first."""
    yield section, [setting for setting in tree if "settings" not in setting]
    for setting in tree:
        name = f"{_dotted_prefix(section)}{setting['name']}"
        if "settings" in setting:
            yield from _sections(name, setting["settings"])
        if "each" in setting:
            yield f"{name}[]", setting["each"]
        for kind, inner in setting.get("kinds", {}).items():
            yield f"{name} ({kind})", inner
        for kind, model in setting.get("models", {}).items():
            yield f"{name} ({kind})", model["settings"]


def _by_mixer() -> dict[str, list[dict[str, Any]]]:
    return {kind: mixer["settings"] for kind, mixer in registry.mixers().items()}


def _dotted_prefix(section: str) -> str:
    """The prefix of a setting's name on the command line."""
    return f"{section.split(' ', maxsplit=1)[0]}." if section else ""


def _title(section: str) -> str:
    path, _, kind = section.partition(" ")
    if kind:
        return f"{path}, of kind {kind.strip('()')}"
    return path or "run"


def _find_settings(trees: dict[str, list[dict[str, Any]]], path: str) -> dict[str, list[dict[str, Any]]]:
    """The settings of that name, or of that dotted path."""
    chosen = {
        section: [
            setting for setting in tree if path in (setting["name"], f"{_dotted_prefix(section)}{setting['name']}")
        ]
        for section, tree in trees.items()
    }
    return {section: tree for section, tree in chosen.items() if tree}


def _containing(trees: dict[str, list[dict[str, Any]]], word: str) -> dict[str, list[dict[str, Any]]]:
    """The settings with that word in their names."""
    chosen = {section: [setting for setting in tree if word in setting["name"]] for section, tree in trees.items()}
    return {section: tree for section, tree in chosen.items() if word and tree}


def lines(settings: Sequence[dict[str, Any]], depth: int = 0) -> list[str]:
    """A tree of settings, indented by `depth` steps, as wide as the terminal."""
    text = []
    for setting in settings:
        indent = "  " * depth
        if "settings" in setting:
            text += [f"{indent}{setting['name']}", *lines(setting["settings"], depth + 1)]
        else:
            text += _wrap_text(heading(setting), indent) + _wrap_text(setting["description"], indent + "    ")
            text += lines(setting.get("each", []), depth + 2)
    return text


def heading(setting: dict[str, Any]) -> str:
    """The name, type and default of a setting, such as `lr: float > 0, default 0.001`."""
    default = f"default {json.dumps(setting['default'])}" if "default" in setting else "required"
    return f"{setting['name']}: {type_text(setting)}, {default}"


def type_text(setting: dict[str, Any]) -> str:
    """The type of a setting with its bounds, such as `int >= 1` or `learned | none`."""
    choices = " | ".join(str(choice) for choice in setting.get("choices", []))
    names = " | ".join(choices if name == "choice" else name for name in setting["types"] if name != "null")
    bounds = setting.get("bounds", {})
    limits = ", ".join(f"{SIGNS[word]} {bounds[word]:,}" for word in SIGNS if word in bounds)
    return f"{names} {limits}".strip() + (", or null" if "null" in setting["types"] else "")


def _wrap_text(text: str, indent: str) -> list[str]:
    width = max(shutil.get_terminal_size().columns, len(indent) + 20)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ")

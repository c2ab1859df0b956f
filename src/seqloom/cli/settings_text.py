"""Settings as text: a line with name, type, bounds and default, and beneath it its meaning."""

import json
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

SIGNS = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<", "multiple_of": "a multiple of"}


def lines(settings: Sequence[dict[str, Any]], depth: int = 0) -> list[str]:
    """A tree of settings, indented by `depth` steps, as wide as the terminal."""
    text = []
    for setting in settings:
        indent = "  " * depth
        if "settings" in setting:
            text += [f"{indent}{setting['name']}", *lines(setting["settings"], depth + 1)]
        else:
            text += _wrapped(heading(setting), indent) + _wrapped(setting["description"], indent + "    ")
            text += lines(setting.get("each", []), depth + 2)
    return text


def heading(setting: dict[str, Any]) -> str:
    """As `lr: float > 0, default 0.001`."""
    default = f"default {json.dumps(setting['default'])}" if "default" in setting else "required"
    return f"{setting['name']}: {type_text(setting)}, {default}"


def type_text(setting: dict[str, Any]) -> str:
    """The type of a setting with its bounds, as `int >= 1` or `learned | none`."""
    choices = " | ".join(str(choice) for choice in setting.get("choices", []))
    names = " | ".join(choices if name == "choice" else name for name in setting["types"] if name != "null")
    bounds = setting.get("bounds", {})
    limits = ", ".join(f"{SIGNS[word]} {bounds[word]:,}" for word in SIGNS if word in bounds)
    return f"{names} {limits}".strip() + (", or null" if "null" in setting["types"] else "")


def _wrapped(text: str, indent: str) -> list[str]:
    width = max(shutil.get_terminal_size().columns, len(indent) + 20)
    return textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent + "  ")

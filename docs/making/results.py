"""The rows of results/, those that concern a mixer as tables of Markdown.

Files of results differ in their columns. What a row is about stands on the left, what was measured on the right.
"""

import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[2] / "results"
NAMES = ("mixer", "contender", "model", "sublayer", "kind")
"""columns that may say which mixer it was"""
ORIGIN = ("machine", "commit", "date", "command")
SETTINGS = (
    "what", "preset", "changes", "task", "probe", "dim", "depth", "context", "T", "tokens", "batch", "batches", "seeds",
    "vocab", "against", "peer", "dtype", "backend", "threads", "repeats",
)  # fmt: skip
SILENT = ("data", "loop_share", "loaded", "freed_memory_kept")
ROWS = 12
"""rows of a file that a page shows; the file has all"""
LONGEST = 60
"""characters of a text that is a figure; longer ones are samples"""
MANY = 8
"""numbers of a list that are figures; longer ones are curves"""


def rows(file: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Those of a file of results."""
    path = folder / f"{file}.jsonl"
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.strip()]


def last(known: Sequence[dict[str, Any]], mixer: str, which: dict[str, Any]) -> dict[str, Any] | None:
    """The newest row about a mixer that has these values."""
    own = [row for row in known if row.get("mixer") == mixer and all(row.get(k) == v for k, v in which.items())]
    return own[-1] if own else None


def results(kind: str, kinds: Collection[str], folder: Path = RESULTS) -> str:
    """A section for each file that has rows about the mixer; "" where there is none."""
    parts = []
    for path in sorted(folder.glob("*.jsonl")):
        rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
        own = [row for row in rows if isinstance(row, dict) and subject(row, kinds)[0] == kind]
        if own:
            parts.append(_section(path.name, own, kinds))
    return "\n\n".join(parts)


def subject(row: dict[str, Any], kinds: Collection[str]) -> tuple[str, str]:
    """The kind of mixer that a row is about and the row's whole name for it; ("", "") where it is about none.

    A name is a kind, or a kind with settings after a sign: attention:heads=4, attention-32.
    """
    for column in NAMES:
        value = row.get(column)
        if isinstance(value, dict):
            value = value.get("kind")
        if isinstance(value, str):
            kind = re.split(r"[^a-z0-9_]", value, maxsplit=1)[0]
            if kind in kinds:
                return kind, value
    return "", ""


def _section(name: str, rows: list[dict[str, Any]], kinds: Collection[str]) -> str:
    shown = rows[-ROWS:]
    origins = list(dict.fromkeys(_origin(row) for row in shown))
    head = ["of", "measured"] if len(origins) == 1 else ["of", "measured", "where"]
    lines = [[_settings(row, kinds), _figures(row), _origin(row)][: len(head)] for row in shown]
    parts = [f"**[{name}](../results/{name})**"]
    if len(rows) > len(shown):
        parts.append(f"The last {len(shown)} of {len(rows)} rows.")
    parts.append(table(head, lines))
    if len(origins) == 1:
        parts.append(origins[0])
    commands = dict.fromkeys(str(row["command"]) for row in shown if "command" in row)
    parts += [f"```sh\n{command}\n```" for command in commands]
    return "\n\n".join(parts)


def _settings(row: dict[str, Any], kinds: Collection[str]) -> str:
    parts = [f"`{subject(row, kinds)[1]}`"]
    for name in SETTINGS:
        value = row.get(name)
        if isinstance(value, list):
            value = " ".join(map(str, value))
        if value not in (None, "", "sublayer"):
            parts.append(str(value) if name in ("what", "preset") else f"{name} {value}")
    return ", ".join(parts)


def _figures(row: dict[str, Any]) -> str:
    names = [name for name in row if name not in (*NAMES, *ORIGIN, *SETTINGS, *SILENT)]
    figures = [(name.replace("_", " "), _value(row[name], name)) for name in names]
    return "<br>".join(f"**{name}** {value}" for name, value in figures if value)


def _value(value: Any, name: str = "") -> str:
    """A figure in a few characters; "" for what is not one. A median with quartiles is 3.9 (3.8 to 4.1)."""
    if isinstance(value, dict):
        inner = [(key, _value(of, name)) for key, of in value.items()]
        return "; ".join(f"{key}: {text}" for key, text in inner if text)
    if isinstance(value, list):
        texts = [_value(number) for number in value] if len(value) <= MANY else []
        many = len(texts) == 3 and name.endswith("quartiles")
        return f"{texts[0]} ({texts[1]} to {texts[2]})" if many else " ".join(texts)
    if isinstance(value, float) and abs(value) < 10_000:
        return f"{value:.4g}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,.0f}"
    return value if isinstance(value, str) and len(value) <= LONGEST else ""


def _origin(row: dict[str, Any]) -> str:
    parts = [str(row[name]) if name != "commit" else f"commit {row[name]}" for name in ORIGIN[:3] if row.get(name)]
    return ", ".join(parts)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of Markdown; a bar within a cell is escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)

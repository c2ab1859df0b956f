"""Reads the rows of results/, and writes those of one mixer as tables of Markdown.

Files of results have different columns. The left column of a table has the settings of a row, the right column the
measured values.
"""

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from seqloom.core.table import markdown
from seqloom.report.stored import read_rows

RESULTS = Path(__file__).parents[2] / "results"
NAMES = ("mixer", "contender", "model", "kind")
"""columns that may name the mixer"""
ORIGIN = ("machine", "commit", "date", "command")
SETTINGS = (
    "what", "preset", "changes", "task", "probe", "dim", "depth", "context", "T", "tokens", "batch", "batches", "seeds",
    "vocab", "against", "peer", "threads", "repeats",
)  # fmt: skip
HIDDEN = ("data", "loop_share", "loaded", "freed_memory_kept")
ROWS = 12
"""the number of rows of a file, the newest, that a page shows"""
LONGEST = 60
"""characters of a text that is shown as a value; longer ones are generated samples"""
MANY = 8
"""numbers of a list that is shown as values; longer ones are curves"""


def rows(file: str, folder: Path = RESULTS) -> list[dict[str, Any]]:
    """The rows of results/FILE.jsonl."""
    return read_rows(folder / f"{file}.jsonl")


def results(kind: str, kinds: Collection[str], folder: Path = RESULTS) -> str:
    """A section for each file that has rows about the mixer; "" where there is none."""
    parts = []
    for path in sorted(folder.glob("*.jsonl")):
        rows_of_mixer = [row for row in read_rows(path) if subject(row, kinds)[0] == kind]
        if rows_of_mixer:
            parts.append(_section(path.name, rows_of_mixer, kinds))
    return "\n\n".join(parts)


def subject(row: dict[str, Any], kinds: Collection[str]) -> tuple[str, str]:
    """(kind, name) of the mixer that a row measures; ("", "") for a row of no mixer.

    A name is a kind, or a kind with settings after a punctuation mark: attention:heads=4, attention-32.
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
    """The rows of one file: a table of the newest, where they were measured, and the commands that made them."""
    shown = rows[-ROWS:]
    lines = [[_settings(row, kinds), _measured(row), _origin(row)] for row in shown]
    origins = {origin for *_, origin in lines}
    parts = [f"**[{name}](../results/{name})**"]
    if len(rows) > len(shown):
        parts.append(f"The last {len(shown)} of {len(rows)} rows.")
    if len(origins) == 1:  # stated once, below the table
        parts += [markdown(("settings", "measured"), [line[:2] for line in lines]), *origins]
    else:
        parts.append(markdown(("settings", "measured", "machine"), lines))
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


def _measured(row: dict[str, Any]) -> str:
    columns = [name for name in row if name not in (*NAMES, *ORIGIN, *SETTINGS, *HIDDEN)]
    values = [(name.replace("_", " "), _value(row[name], name)) for name in columns]
    return "<br>".join(f"**{name}** {value}" for name, value in values if value)


def _value(value: Any, name: str = "") -> str:
    """A value in a few characters; "" for curves and samples.

    A median with its quartiles is written as 3.9 (3.8 to 4.1), a dictionary as its parts.
    """
    if isinstance(value, dict):
        inner = [(key, _value(part, name)) for key, part in value.items()]
        return "; ".join(f"{key}: {text}" for key, text in inner if text)
    if isinstance(value, list):
        texts = [_value(number) for number in value] if len(value) <= MANY else []
        quartiles = len(texts) == 3 and name.endswith("quartiles")
        return f"{texts[0]} ({texts[1]} to {texts[2]})" if quartiles else " ".join(texts)
    if isinstance(value, float) and abs(value) < 10_000:
        return f"{value:.4g}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value:,.0f}"
    return value if isinstance(value, str) and len(value) <= LONGEST else ""


def _origin(row: dict[str, Any]) -> str:
    parts = [str(row[name]) if name != "commit" else f"commit {row[name]}" for name in ORIGIN[:3] if row.get(name)]
    return ", ".join(parts)

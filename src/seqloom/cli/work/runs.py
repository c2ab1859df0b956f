"""`seqloom runs`: the runs beneath a folder, how far they are, and in what their settings differ."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.core.progress import format_duration
from seqloom.core.table import table
from seqloom.runs import about
from seqloom.runs.layout import Run
from seqloom.runs.lock import is_held
from seqloom.runs.metrics import read
from seqloom.runs.steps import newest_first

FIXED = ("run", "state", "batches", "loss", "held-out", "h:m:s")
"""the columns that every table has"""
MOST = 12
"""the most settings that the table has a column for"""
LONGEST = 8
"""the most entries of a list of numbers or names that is shown"""
WIDEST = 40
"""the most characters of a value in the table"""
LARGEST = 1e100
"""the size of a number from which it is not one that training writes"""
INTERNAL = ("data.identity", "tokenizer", "model.mean", "model.deviation", "model.digest")
"""settings that follow from the data: hashes, and the mean and deviation of an environment's states"""


def format_runs(folder: Path, *, as_json: bool = False) -> str:
    """A table of the runs, or one JSON object. FileNotFoundError where the folder does not exist or holds no run.

    The JSON object has every setting that differs, by its dotted name. The table has the `MOST` of them that most runs
    have, without internal ones and long lists; a line beneath it counts the others.
    """
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} does not exist; give a folder with runs in it")
    descriptions = [_describe_run(folder, path.parent) for path in sorted(folder.rglob("config.json"))]
    runs = [run for run in descriptions if run is not None]
    if not runs:
        raise FileNotFoundError(f"{folder} holds no run: no folder in it has a config.json with a model")
    varying = _varying([run["settings"] for run in runs if run["settings"]])  # a damaged run has none
    for run in runs:
        run["settings"] = {name: run["settings"].get(name) for name in varying}
    if as_json:
        return json.dumps({"runs": runs})
    readable = [name for name in varying if _is_readable(name, [run["settings"][name] for run in runs])]
    shown = _most_common(readable, [run["settings"] for run in runs])
    headings = _headings(readable)
    rows = [
        (
            run["run"],
            run["state"],
            run["batches"],
            run["loss"],
            run["held_out"],
            format_duration(run["seconds"]),
            *(_text(run["settings"][name]) for name in shown),
        )
        for run in runs
    ]
    text = table((*FIXED, *(headings[name] for name in shown)), rows)
    others = len(readable) - len(shown)
    if others:
        text += f"\n\n{others} more setting{'s differ' if others > 1 else ' differs'}: add --json to see them all"
    return text


def _describe_run(root: Path, folder: Path) -> dict[str, Any] | None:
    """The description of the run in a folder; None where the folder belongs to something else, such as a study."""
    run = Run(folder)
    name = folder.relative_to(root).as_posix()
    no_rows: dict[str, Any] = {"batches": 0, "loss": None, "held_out": None, "seconds": 0.0}
    try:
        settings = run.settings
        if not isinstance(settings.get("model"), dict) or "study" in settings:
            return None
        rows = read(run.metrics) if run.metrics.is_file() else []
    except (OSError, ValueError) as error:
        return {"run": name, "state": f"damaged: {error}", **no_rows, "settings": {}}
    losses = [_number(row["loss"]) for row in rows if "loss" in row]
    scores = [row for row in rows if "held_out" in row]
    batches = rows[-1]["step"] if rows else 0
    return {
        "run": name,
        "state": _state(run, batches, bool(scores) and scores[-1]["step"] == batches),
        "batches": batches,
        "loss": losses[-1] if losses else None,
        "held_out": _number(scores[-1]["held_out"]) if scores else None,
        "seconds": sum(_number(row.get("seconds")) or 0.0 for row in rows),
        "settings": dict(_flat(settings)),
    }


def _state(run: Run, batches: int, scored: bool) -> str:
    """Whether a process trains it now, whether it is done, or that the same command continues with it."""
    if is_held(run.folder):
        return "training"
    for path in newest_first(run.checkpoints):
        try:
            meta = about.describe(path).meta
        except (OSError, ValueError):
            continue
        config = meta.get("config")
        training = config.get("training") if isinstance(config, dict) else None
        asked = training.get("batches") if isinstance(training, dict) else None
        has_ended = meta.get("solved") or asked in (None, batches)
        return "done" if scored and has_ended else "stopped"
    return "done" if scored else "stopped"


def _number(value: object) -> float | None:
    """A number of a row; None for what is none, or is larger than any that training writes."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST else None


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Sequence[tuple[str, Any]]:
    """The settings by their dotted names."""
    flat: list[tuple[str, Any]] = []
    for name, value in settings.items():
        dotted = f"{prefix}.{name}" if prefix else name
        flat += _flat(value, dotted) if isinstance(value, Mapping) else [(dotted, value)]
    return flat


def _varying(settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of settings that are not the same in all runs."""
    names = dict.fromkeys(name for values in settings for name in values)
    return [name for name in names if len({json.dumps(values.get(name), sort_keys=True) for values in settings}) > 1]


def _is_readable(name: str, values: Sequence[Any]) -> bool:
    """Whether a setting has a place in the table: not an internal one, and in no run a long list of plain values."""
    return name not in INTERNAL and not any(
        isinstance(value, list) and len(value) > LONGEST and not any(isinstance(entry, dict) for entry in value)
        for value in values
    )


def _most_common(names: Sequence[str], settings: Sequence[Mapping[str, Any]]) -> list[str]:
    """The `MOST` names that have a value in most runs, in the order of `names`."""
    counts = {name: sum(values.get(name) is not None for values in settings) for name in names}
    chosen = sorted(names, key=lambda name: -counts[name])[:MOST]
    return [name for name in names if name in chosen]


def _headings(names: Sequence[str]) -> dict[str, str]:
    """The last part of each name, or the whole name where that is the last part of another, or a fixed column."""
    last_parts = {name: name.rpartition(".")[2] for name in names}
    taken = Counter([*last_parts.values(), *(heading.replace("-", "_") for heading in FIXED)])
    return {name: last if taken[last] == 1 else name for name, last in last_parts.items()}


def _text(value: Any) -> str | None:
    """A value as a cell: a string as it is, anything else as JSON, both cut to `WIDEST` characters."""
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= WIDEST else f"{text[: WIDEST - 3]}..."

"""Reads OUT/comparison.json and the rows of its runs. Any error is one line that names the file.

A damaged row is left out, and its line is named; so are missing rows, by what the run's checkpoint counts.
"""

from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from seqloom.core.files import parse_json, read_bytes
from seqloom.report.columns import LARGEST
from seqloom.report.comparison import FORMAT, Candidate, Comparison, Run, View
from seqloom.runs.about import newest_mark
from seqloom.runs.rows import START, damage, describe_damage, scan

_LARGEST = 64 << 20
"""bytes that comparison.json may have"""
LOSS, HELD_OUT = "loss", "held_out"
"""the losses in the rows of a run's metrics.jsonl"""


def read(out: Path) -> Comparison:
    """The comparison in `out`, each contender with the rows of its runs.

    FileNotFoundError without a comparison or without the rows of a run; ValueError for a newer format, an entry that is
    missing or of another type, and where a file of rows holds none.
    """
    path = out / "comparison.json"
    if not path.is_file():
        if (out / "metrics.jsonl").is_file():
            raise FileNotFoundError(
                f"{out} is a run, not a comparison: give the folder of a comparison, the --out of `seqloom compare`"
            )
        raise FileNotFoundError(f"{path}: no comparison there; `seqloom compare … --out {out}` makes one")
    comparison = _parse_comparison(path)
    contenders = [
        contender.model_copy(update={"seeds": [_run(out, contender, folder) for folder in contender.runs]})
        for contender in comparison.contenders
    ]
    return comparison.model_copy(update={"contenders": contenders})


def _parse_comparison(path: Path) -> Comparison:
    """The content of comparison.json. ValueError, which names the file, where it does not fit the format."""
    try:
        raw = parse_json(read_bytes(path, _LARGEST))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON ({error}); make the comparison again") from None
    version = raw.get("format") if isinstance(raw, dict) else None
    if not isinstance(version, int):
        raise ValueError(f"{path}: not a comparison (it has no format); make the comparison again")
    if version > FORMAT:
        raise ValueError(f"{path}: format {version} is newer than this seqloom reads ({FORMAT}); update seqloom")
    try:
        comparison = Comparison.model_validate(raw)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{path}: {field}: {first['msg']}; make the comparison again") from None
    names = [contender.name for contender in comparison.contenders]
    if len(set(names)) < len(names):
        raise ValueError(f"{path}: two contenders are called the same; make the comparison again")
    for contender in comparison.contenders:
        for view in contender.views:
            _check(path, contender.name, view)
    return comparison


def _check(path: Path, name: str, view: View) -> None:
    """Raises ValueError where rows of a view differ in length, or a view has not as many axes as its values."""
    rows = [row for row in view.values if isinstance(row, list)]
    axes = 2 if rows else 1
    if len(view.axes) != axes or len({len(row) for row in rows}) > 1 or not view.values:
        raise ValueError(f"{path}: {name}: {view.name} of layer {view.layer}: its values do not fit its axes")


def _run(out: Path, contender: Candidate, folder: str) -> Run:
    """The rows of the run in `folder`, and what is damaged or missing in them."""
    path = out / folder / "metrics.jsonl"
    if not path.exists():
        raise FileNotFoundError(f"{path}: no rows of a run of {contender.name} there; make the comparison again")
    mark = newest_mark(path.parent / "checkpoints")
    content = scan(path, mark or START)
    losses = [(row["step"], loss) for row in content.rows if (loss := _number(row, LOSS)) is not None]
    held_out = [(row["step"], loss) for row in content.rows if (loss := _number(row, HELD_OUT)) is not None]
    stages = [(row["step"], row["stage"]) for row in content.rows if isinstance(row.get("stage"), int)]
    ends = [step for (step, stage), (_, next_stage) in pairwise(stages) if stage != next_stage]
    problems = []
    if content.damaged:
        problems.append(f"{damage(content.damaged)}: left out")
    if mark is not None and not content.complete:
        problems.append(describe_damage(content, mark))
    return Run(folder=folder, losses=losses, held_out=held_out, stages=ends, damage="; ".join(problems) or None)


def _number(row: dict[str, Any], name: str) -> float | None:
    """The number of that name; None where the row has none or it was not finite."""
    value = row.get(name)
    if type(value) is int and abs(value) < 2**53:
        return float(value)
    return value if isinstance(value, float) and abs(value) <= LARGEST else None

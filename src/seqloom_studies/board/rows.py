"""The rows of the comparison, and the file that keeps them after the folder of the runs is deleted.

    results/comparison.jsonl          a line per finished run: {cell, …BoardRow, date, commit, tag, command, machine}
    results/comparison_times.jsonl    the last race: {contender, step or tokens and ms_per_token, …}
    results/board.jsonl, …_times      rows of the protocol before this one: no folds, seed 0 is a result

A run is identified by `digest`, over the text and all settings that its result depends on. A run whose row is in the
file is not trained again, on whatever machine and in whatever folder the study continues.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

from pydantic import ValidationError

from seqloom.analysis.history import require_traceable
from seqloom.core.files import read_text
from seqloom.runs.durable import replace
from seqloom.studies.results import ROWS, document
from seqloom.studies.study import Row
from seqloom_studies.board.page_rows import Result

STORED = Path("results/comparison.jsonl")
TIMES = "times"
"""the folder of the timings, and the end of the name of their file, results/board_times.jsonl"""
LARGEST = 64 << 20
"""the most bytes of the file"""
ORIGIN = ("cell", "date", "commit", "tag", "command", "machine", "lost")


@final
class BoardRow(Row):
    """A trained model of the comparison.

    Losses are None where the loss became NaN (`failed` then has the reason); those of the test text also in runs that
    choose a form or a rate, which have none.
    """

    contender: str
    use: Literal["form", "rate", "control", "result", "slope", "first"] = "first"
    """what the run is for; "first": of the protocol before this one"""
    text: str = "books"
    fold: int | None = None
    """the fold that is the test text; None: there is none, or one fixed test text"""
    digest: str
    board: str
    """digest of the settings and text that all runs share; only rows with the same digest are compared"""
    tokens: dict[str, int]
    """tokens of the training, validation and test texts"""
    authors: dict[str, tuple[str, ...]]
    """authors of the validation and test texts; texts of all other authors are trained on"""
    lr: float
    seed: int
    """seed of the weights, of dropout and of the order of the batches"""
    batches: int
    ffn: int
    parameters: int
    """trainable parameters of the layers and their norms"""
    embedding: int
    """trainable parameters of the embedding, which is also the output layer"""
    backends: dict[str, list[str]]
    """backends by op"""
    seconds: float
    """seconds of all training steps, on a machine that may have run other programs too"""
    training: float | None
    """training loss in nats per token, the median over the last tenth of the batches"""
    validation: float | None
    """nats per token on the validation texts, by which the learning rate is chosen"""
    loss: float | None
    """nats per token on the test texts"""
    bits_per_byte: float | None
    """on the test texts, read in windows of the context"""
    by_position: dict[str, float] | None
    """bits per byte by the number of tokens of the window that come before the predicted one"""
    bits_per_byte_long: float | None
    """as `bits_per_byte`, in windows of `LONG` tokens, read from a state"""
    by_position_long: dict[str, float] | None
    by_author: dict[str, tuple[float, int]] | None = None
    """bits and bytes of each author's test texts, read in windows of the context"""
    passes: float | None = None
    """how often the training text was read"""
    state_bytes: dict[str, int]
    """bytes of the state of one row, by the number of tokens that it has read"""
    failed: str | None = None


def stored_lines(path: Path) -> dict[str, dict[str, Any]]:
    """The lines of the file of rows, by digest; {} for a missing file. ValueError for a line that is not such a row."""
    if not path.is_file():
        return {}
    lines: dict[str, dict[str, Any]] = {}
    for number, line in enumerate(read_text(path, LARGEST).splitlines(), 1):
        try:
            values = json.loads(line)
            row = row_of(values)
        except (ValueError, TypeError, AttributeError):
            raise ValueError(
                f"{path}: line {number:,} is no row of the comparison: put back the file as it was written"
            ) from None
        lines[row.digest] = values
    return lines


def row_of(values: Mapping[str, Any]) -> BoardRow:
    """The row in a line. ValueError where the line is not a row of the board, or the board's page cannot show it."""
    try:
        Result.model_validate(values)
        return BoardRow.model_validate({name: value for name, value in values.items() if name not in ORIGIN})
    except ValidationError as error:
        raise ValueError(str(error)) from None


def finished_lines(out: Path) -> dict[str, dict[str, Any]]:
    """The lines of all finished runs in a study's folder, by digest; the study may still be running.

    ValueError, in one line, where a file has other rows.
    """
    lines = {}
    for path in sorted(out.rglob(ROWS)):
        content = document(path)
        for row in content["rows"]:
            if "digest" not in row:  # a row of a race
                continue
            try:
                row_of(row)
            except ValueError:
                raise ValueError(
                    f"{path} has rows of something else than this comparison: choose another --out"
                ) from None
            lines[row["digest"]] = {"cell": path.parent.relative_to(out).as_posix(), **row, **content["origin"]}
    return lines


def merge(out: Path, path: Path, *, scratch: bool = False) -> tuple[int, int]:
    """Adds the rows of finished runs to the file; returns the number of new rows and of all rows.

    ValueError where the commit of a new row cannot be looked at, unless the file is a `scratch` one.
    """
    earlier = stored_lines(path)
    new = {digest: line for digest, line in finished_lines(out).items() if digest not in earlier}
    if new and not scratch:
        require_traceable(line["commit"] for line in new.values())
    lines = {**new, **earlier}
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, encode_lines(list(lines.values())))
    return len(lines) - len(earlier), len(lines)


def merge_times(out: Path, path: Path, *, scratch: bool = False) -> int:
    """Replaces the times in the file by those of the race in a study's folder; returns their number.

    Raises ValueError as `merge` does.
    """
    lines = []
    for file in sorted((out / TIMES).rglob(ROWS)):
        content = document(file)
        lines += [{**row, **content["origin"]} for row in content["rows"]]
    if lines and not scratch:
        require_traceable(line["commit"] for line in lines)
    if lines:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace(path, "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines).encode())
    return len(lines)


def encode_lines(lines: Sequence[Mapping[str, Any]]) -> bytes:
    """The lines in a fixed order: by contender, rate and seed."""
    ordered = sorted(
        lines, key=lambda line: (line.get("text", ""), line["contender"], line["lr"], line["seed"], line["digest"])
    )
    return "".join(json.dumps(line, allow_nan=False) + "\n" for line in ordered).encode()

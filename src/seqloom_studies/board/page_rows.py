"""The rows that the board's table and charts are drawn from: trained models, raced times, and probes of recall."""

import json
from pathlib import Path
from typing import Annotated, TypeVar, final

from pydantic import BaseModel, ConfigDict, Field

from seqloom.core.files import read_text
from seqloom.report.columns import Count, Number, Share
from seqloom.report.results import row_of

LARGEST = 64 << 20
"""the most bytes of a file of rows"""
Spans = dict[str, Number | None]
"""bits per byte by the number of tokens that come before the predicted one"""


class _Row(BaseModel):
    """Columns that no page needs are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True, allow_inf_nan=False)


@final
class Result(_Row):
    """A trained model; losses are None where it became NaN, those of the test text also where it was not tested."""

    contender: str
    use: str = "first"
    """what the run is for; "first": of the protocol before folds"""
    text: str = "books"
    fold: Count | None = None
    board: str
    """only rows of the same board are compared"""
    tokens: dict[str, Count]
    """tokens of the training, validation and test texts"""
    authors: dict[str, list[str]]
    """authors of the validation and test texts"""
    lr: Annotated[Number, Field(gt=0)]
    seed: Count
    batches: Count
    parameters: Count
    backends: dict[str, list[str]]
    """backends by op"""
    validation: Number | None
    bits_per_byte: Number | None
    bits_per_byte_long: Number | None = None
    """the same in windows beyond the context, read from a state"""
    by_position: Spans | None
    by_position_long: Spans | None
    state_bytes: dict[str, Count]
    """bytes of the state of one row, by the number of tokens that it has read"""
    failed: str | None
    date: str = ""
    commit: str = ""
    machine: str = ""


@final
class Timed(_Row):
    """A raced training step in seconds with its quartiles, or milliseconds of a token after so many others."""

    contender: str
    step: Number | None = None
    step_quartiles: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    tokens: Count | None = None
    ms_per_token: Number | None = None
    state_bytes: Count | None = None
    """of one row, after so many tokens, in a model whose context is as many"""
    machine: str = ""


@final
class Recalled(_Row):
    """The share of right answers of a model that was trained on a probe."""

    mixer: str
    dim: Count
    lr: Number
    probe: str
    difficulty: Count
    distance: list[Count] | None
    """the distances of the questions; None: of all"""
    accuracy: Share | None
    state_bytes: Count | None = None


def read_times(path: Path) -> list[Timed]:
    """The times in a file; [] for a missing one. ValueError, in one line, for a line of something else."""
    return _read(path, Timed, "times of the comparison")


def read_recalled(path: Path) -> list[Recalled]:
    """The probes in a file; [] for a missing one. ValueError, in one line, for a line of something else."""
    return _read(path, Recalled, "probes of recall")


R = TypeVar("R", bound=_Row)


def _read(path: Path, schema: type[R], what: str) -> list[R]:
    if not path.is_file():
        return []
    advice = f"these are no {what}: put back the file as it was written"
    rows = []
    for number, line in enumerate(read_text(path, LARGEST).splitlines(), 1):
        where = f"{path}: line {number:,}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError):
            raise ValueError(f"{where} is not JSON: {advice}") from None
        rows.append(row_of(schema, values, where, advice))
    return rows

"""Columns of numbers in a file: CSV with a line of names, Parquet, or an array that NumPy saved.

A row of the file is a time. The last part is held out; windows of the rest are trained on, in an order of their own in
each epoch. Every cell must be a finite number.
"""

import csv
import hashlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np
from typing_extensions import override

from seqloom.data.permutation import permute
from seqloom.data.series.series import Floats, Rows, Scale, Series, forecast_rows, scale_of

MOST = 2**31
"""the most numbers of a file"""
CHOOSE = "choose columns by --set data.column=a,b"


@final
@dataclass(frozen=True, eq=False)
class NumberTable:
    """values (N, C), one row for each time, and the names of the columns."""

    values: Floats
    names: tuple[str, ...]


def read_table(path: Path, column: str | None) -> NumberTable:
    """The columns of a file, or those that `column` names, as `a,b`. Errors as `read_series` has them."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist: give a .csv, .parquet or .npy file")
    read = {".csv": _read_csv, ".parquet": _read_parquet, ".npy": _read_array}[path.suffix]
    table = read(path, None if column is None else tuple(name.strip() for name in column.split(",")))
    for number, name in enumerate(table.names):
        values = table.values[:, number]
        odd = np.flatnonzero(~np.isfinite(values))
        if len(odd):
            raise ValueError(f"{path}: row {odd[0] + 1:,}, column {name}: {values[odd[0]]} is no finite number")
        if len(values) and np.ptp(values) == 0:
            raise ValueError(f"{path}: column {name} is always {values[0]:g}: there is nothing to predict; {CHOOSE}")
    return table


@final
class FileSeries(Series):
    """Windows of the first part of a table for training; the last share `held_out` of its times (or all) is not."""

    def __init__(self, table: NumberTable, context: int, held_out: float, name: str) -> None:
        self.name, self.context = name, context
        self.columns = self.outputs = table.names
        count = len(table.values)
        end = 0 if held_out == 1 else count - max(context + 1, round(count * held_out))
        if count < context + 1 or (0 < held_out < 1 and end < context + 1):
            raise ValueError(
                f"{name}: {count:,} rows are too few for windows of {context:,} and a held-out one: "
                f"set model.context to at most {max(1, count // 2 - 1):,}"
            )
        self._train, self._test = table.values[:end], table.values[end:]
        content = np.ascontiguousarray(table.values).tobytes()
        self.identity = f"{hashlib.sha256(content).hexdigest()} {','.join(table.names)} {held_out}"

    @property
    @override
    def scale(self) -> Scale:
        return scale_of(self._train)

    @property
    @override
    def output_scale(self) -> Scale:
        return self.scale

    @override
    def rows(self, seed: int, step: int, count: int) -> Rows:
        starts = len(self._train) - self.context
        epoch, index = np.divmod(np.arange(step * count, (step + 1) * count), starts)
        return self._windows(self._train, permute(index, epoch, starts, seed))

    @override
    def held_out(self, count: int) -> Rows:
        """Windows side by side."""
        starts = np.arange(0, len(self._test) - self.context, self.context)
        return self._windows(self._test, starts[:count])

    def _windows(self, values: Floats, starts: "np.ndarray") -> Rows:
        return forecast_rows(values[starts[:, None] + np.arange(self.context + 1)])


def _read_csv(path: Path, chosen: tuple[str, ...] | None) -> NumberTable:
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            names = tuple(name.strip() for name in next(lines, ()))
            places = _places(path, names, chosen)
            rows = [_numbers(path, names, places, line, row) for row, line in enumerate(lines, 1) if line]
    except (UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path} is no CSV file in UTF-8: {error}") from None
    values = np.array(rows, np.float64).reshape(len(rows), len(places))
    return NumberTable(values, tuple(names[place] for place in places))


def _numbers(path: Path, names: tuple[str, ...], places: list[int], line: list[str], row: int) -> list[float]:
    """The chosen numbers of a line; `row` counts from 1 below the names."""
    if len(line) != len(names):
        raise ValueError(f"{path}: row {row:,} has {len(line)} cells, and there are {len(names)} names of columns")
    numbers = []
    for place in places:
        try:
            number = float(line[place])
        except ValueError:
            cell = f"{line[place][:40]!r} is no number" if line[place].strip() else "the cell is empty"
            raise ValueError(f"{path}: row {row:,}, column {names[place]}: {cell}; {CHOOSE}") from None
        if not math.isfinite(number):
            raise ValueError(f"{path}: row {row:,}, column {names[place]}: {number} is no finite number")
        numbers.append(number)
    return numbers


def _read_parquet(path: Path, chosen: tuple[str, ...] | None) -> NumberTable:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ValueError(f"{path}: Parquet needs pyarrow: pip install 'seqloom[data]'") from None
    try:
        table = parquet.read_table(path)
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} is no readable Parquet file: {str(error).splitlines()[0]}") from None
    names = tuple(table.column_names)
    places = _places(path, names, chosen)
    columns = []
    for place in places:
        column = table.column(place)
        if not (column.type.equals("bool") or str(column.type).startswith(("int", "uint", "float", "double", "half"))):
            raise ValueError(f"{path}: column {names[place]} is of {column.type}, not of numbers; {CHOOSE}")
        gaps = np.flatnonzero(np.asarray(column.is_null()))
        if len(gaps):
            raise ValueError(f"{path}: row {gaps[0] + 1:,}, column {names[place]}: the cell is empty; {CHOOSE}")
        columns.append(np.asarray(column.to_numpy(), np.float64))
    return NumberTable(np.stack(columns, 1), tuple(names[place] for place in places))


def _read_array(path: Path, chosen: tuple[str, ...] | None) -> NumberTable:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is no readable array of NumPy: {str(error).splitlines()[0]}") from None
    if array.ndim not in (1, 2) or array.dtype.kind not in "iufb" or array.size > MOST:
        raise ValueError(f"{path}: an array of numbers has the axes (times, columns), not {array.dtype} {array.shape}")
    values = array.reshape(len(array), -1).astype(np.float64)
    names = tuple(str(number) for number in range(values.shape[1]))
    places = _places(path, names, chosen)
    return NumberTable(values[:, places], tuple(names[place] for place in places))


def _places(path: Path, names: tuple[str, ...], chosen: tuple[str, ...] | None) -> list[int]:
    """The numbers of the chosen columns. ValueError for one that is missing, unnamed or named twice."""
    if not names or len(set(names)) < len(names):
        raise ValueError(f"{path}: the first line must name the columns, each by another name")
    for name in chosen or ():
        if name not in names:
            raise ValueError(f"{path} has no column {name!r}: it has {', '.join(names)[:200]}")
    return [names.index(name) for name in chosen or names]

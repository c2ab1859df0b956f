"""Rows of numbers: what a regressor reads, and what it is asked to predict.

numbers:adding[:LENGTH]       two marked numbers of a row, whose sum is asked for at its end
numbers:mackey-glass[:TAU]    a chaotic series
numbers:sines[:COUNT]         a sum of sines, with noise
numbers:linear[:ORDER]        a linear system that is observed with noise, and its Kalman filter
prices.csv, .parquet, .npy    columns of numbers, a row a time; the last part is held out
"""

from pathlib import Path

from seqloom.core.config import suggestion
from seqloom.data.series.adding import Adding
from seqloom.data.series.file import FileSeries, read_table
from seqloom.data.series.linear_system import LinearSystem
from seqloom.data.series.mackey_glass import MackeyGlass
from seqloom.data.series.series import Rows, Series
from seqloom.data.series.sines import Sines

__all__ = ["DRAWN", "PREFIX", "Rows", "Series", "identity_of", "read_series"]

PREFIX = "numbers"
DRAWN: dict[str, type[Adding] | type[MackeyGlass] | type[Sines] | type[LinearSystem]] = {
    kind.title: kind for kind in (Adding, MackeyGlass, Sines, LinearSystem)
}
"""the series that are drawn here, by name"""
FILES = (".csv", ".parquet", ".npy")


def read_series(source: str, context: int, held_out: float, column: str | None = None) -> Series:
    """The series of a name or a file, in rows of `context` times.

    `column` names columns of a file, as `a,b`; None for all. ValueError, in one line, for a name that there is not,
    and for a file with gaps, words, infinite numbers, columns that never change, or too few rows; FileNotFoundError.
    """
    prefix, *words = source.split(":")
    if prefix != PREFIX:
        if Path(source).suffix not in FILES:
            raise ValueError(
                f"{source[:100]}: a series of numbers is a file ({', '.join(FILES)}) or {PREFIX}:NAME, where NAME is "
                f"one of {', '.join(DRAWN)}"
            )
        return FileSeries(read_table(Path(source), column), context, held_out, source)
    name = words[0] if words else ""
    if name not in DRAWN:
        raise ValueError(f"unknown series {name!r}; {suggestion(name, DRAWN)}")
    if column is not None:
        raise ValueError(f"{source} is drawn, and has no columns to choose: leave data.column out")
    if len(words) > 2 or (len(words) == 2 and not (words[1].isascii() and words[1].isdigit() and len(words[1]) < 8)):
        raise ValueError(f"{source[:100]}: a series is {PREFIX}:NAME or {PREFIX}:NAME:SIZE, as {PREFIX}:linear:4")
    kind = DRAWN[name]
    return kind(context, int(words[1])) if len(words) == 2 else kind(context)


def identity_of(source: str, held_out: float, column: str | None = None) -> str:
    """What is equal for equal series, whatever the context. Raises as `read_series` does."""
    if source.partition(":")[0] == PREFIX:
        return source
    return read_series(source, 1, held_out, column).identity

"""The table of measured times that the lag sum chooses its backend by: a file of JSON, one line a point.

    {"machine": …, "commit": …, "date": …, "points": [
    {"taps": "vectors", "training": true, "T": 128, "L": 128, "D": 128, "B": 64, "ms": {"fft": 20.1, "native": 7.9}},
    …]}

Times are of a forward, or where `training` says so of a forward and backward, in float32; the least of several rounds,
which is disturbed least.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from seqloom.core.files import read_json

PLACE = Path(__file__).with_name("crossovers.json")
"""the package's own table"""
AXES = ("T", "L", "D", "B")
"""the sizes of a point, in their order: tokens, lags, channels, rows"""


@final
@dataclass(frozen=True)
class Point:
    """What each backend took at one size."""

    taps: str
    training: bool
    sizes: tuple[int, int, int, int]
    """T, L, D, B"""
    ms: Mapping[str, float]


@final
@dataclass(frozen=True)
class Table:
    """All that was measured, and where it is from: machine, commit and date."""

    origin: Mapping[str, str]
    points: tuple[Point, ...]


def read(place: str | Path) -> Table:
    """The table in this file. ValueError, in one line, if there is none that can be read."""
    try:
        said = read_json(place)
        origin = {name: str(said.get(name, "unknown")) for name in ("machine", "commit", "date")}
        return Table(origin, tuple(map(_point, said["points"])))
    except OSError as error:
        reason = error.strerror or "it cannot be read"
    except (ValueError, TypeError, KeyError, AttributeError, IndexError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error)
    raise ValueError(
        f"{place} is no table of lag sums ({reason}): `make tune` measures the repository's anew, and "
        "SEQLOOM_LAG_SUM_TABLE may name another"
    )


def write(place: str | Path, table: Table) -> None:
    """Writes the table, whole or not at all."""
    lines = ",\n".join(json.dumps(_said(point)) for point in table.points)
    head = json.dumps({**table.origin, "points": []})[:-2]
    part = Path(f"{place}.part")
    part.write_text(f"{head}\n{lines}\n]}}\n", encoding="utf-8")
    part.replace(place)


def _point(said: Any) -> Point:
    T, L, D, B = sizes = tuple(said[axis] for axis in AXES)
    if not all(type(size) is int and size >= 1 for size in sizes):
        raise ValueError(f"the sizes {sizes} are not whole numbers from 1 on")
    times = {str(name): float(ms) for name, ms in said["ms"].items()}
    if not times or not all(0 < ms < float("inf") for ms in times.values()):
        raise ValueError(f"the times {times} are not milliseconds")
    return Point(str(said["taps"]), bool(said["training"]), (T, L, D, B), times)


def _said(point: Point) -> dict[str, Any]:
    sizes = dict(zip(AXES, point.sizes, strict=True))
    return {"taps": point.taps, "training": point.training, **sizes, "ms": dict(point.ms)}

"""Curves with bands over seeds, as panels: what all figures of costs over something have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import final

from seqloom.report.exhibit import Cell, Exhibit, Panel, all_rounded, axis, filename
from seqloom.report.figures import Axis, Level, Series, lines
from seqloom.report.plates.rows import Line, Plate

TRAINING, HELD_OUT = "training cost (nats a token)", "held-out cost (nats a token)"


@final
@dataclass(frozen=True)
class Curve:
    """A named curve: at each x the mean over seeds, the lowest and the highest."""

    name: str
    slot: int
    x: list[float]
    mean: list[float]
    low: list[float]
    high: list[float]


def curve(name: str, slot: int, seeds: Sequence[dict[float, float]]) -> Curve | None:
    """The curve of several seeds, each x → y, over the x that any has; None where none has one."""
    places = sorted({x for seed in seeds for x in seed})
    values = [[seed[x] for seed in seeds if x in seed] for x in places]
    if not places:
        return None
    return Curve(name, slot, places, *([how(each) for each in values] for how in (fmean, min, max)))


def panel(
    plate: Plate, name: str, label: str, drawn: Sequence[Curve | None], x: str, y: str, *,
    log: bool = False, marks: bool = False, level: bool = True, band: bool | None = None,
) -> Panel | None:  # fmt: skip
    """A panel of curves; None where there is none. The floor of the text is a level of it, unless it shows no costs."""
    found = [one for one in drawn if one is not None]
    if not found:
        return None
    banded = plate.several if band is None else band
    levels = plate.floor if level else []
    svg = lines(
        [
            Series(
                one.name, one.x, one.mean, one.slot, marks=marks,
                low=one.low if banded else None, high=one.high if banded else None,
            )
            for one in found
        ],
        title=f"{y} against {x}", description=plate.figure["says"], x=Axis(x, log), y=Axis(y),
        levels=[Level(*one) for one in levels],
    )  # fmt: skip
    series = [
        {"name": one.name, "slot": one.slot, "x": all_rounded(one.x), "y": all_rounded(one.mean), "marks": marks}
        | ({"low": all_rounded(one.low), "high": all_rounded(one.high)} if banded else {})
        for one in found
    ]
    rows: list[list[Cell]] = [
        [one.name, *all_rounded([at, mean, *([low, high] if banded else [])])]
        for one in found
        for at, mean, low, high in zip(one.x, one.mean, one.low, one.high, strict=True)
    ]
    head = ["model", x, y, *(["lowest", "highest"] if banded else [])]
    plot = {"kind": "lines", "x": axis(x, log), "y": axis(y), "series": series, "levels": levels}
    return Panel(f"{plate.figure['name']}-{name}", label, svg, head, rows, plot)


def exhibit(
    plate: Plate, name: str, heading: str, says: str, panels: Sequence[Panel | None], shown_names: list[tuple[str, int]]
) -> Exhibit | None:
    """The exhibit of the panels that there are; None without any."""
    shown = [one for one in panels if one is not None]
    if not shown:
        return None
    return Exhibit(filename(plate.figure["name"], name), heading, says, shown, "Picture", shown_names)


def names(shown: Sequence[Line]) -> list[tuple[str, int]]:
    """(name, slot) of the lines that have anything to show, for the toggles."""
    return [(one.name, one.slot) for one in shown if any(seed.medians or seed.held_out for seed in one.seeds)]

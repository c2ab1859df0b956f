"""What a figure shows, by its kind: medians over batches, every batch, the end over a setting, cost against size."""

from collections.abc import Sequence

from seqloom.report.exhibit import Exhibit, filename
from seqloom.report.plates.compared import PEER
from seqloom.report.plates.drawing import HELD_OUT, TRAINING, Curve, curve, exhibit, names, panel
from seqloom.report.plates.prices import price
from seqloom.report.plates.rows import Line, Plate, Seed

MOST = 400
"""points of a curve that shows every batch: the lowest, the median and the highest of each stretch"""


def exhibits(plate: Plate) -> list[Exhibit]:
    """The exhibits of a plate; [] where no cell has anything to show yet."""
    made = {
        "curves": lambda: [_medians(plate, family) for family in dict.fromkeys(one.family for one in plate.lines)],
        "batches": lambda: [_every(plate)],
        "sweep": lambda: [_sweep(plate)],
        "points": lambda: [price(plate), _medians(plate, None)],
    }[plate.figure["kind"]]()
    return [one for one in made if one is not None]


def _medians(plate: Plate, family: str | None) -> Exhibit | None:
    """Medians over stretches, their second half, differences to 32 heads, and held-out costs."""
    shown = [one for one in plate.lines if family is None or one.family == family]
    stretch = plate.figure["stretch"]
    says = f"Medians of the training cost over {stretch:,} batches each; the stretches do not overlap." + _bands(plate)
    peer = next((one for one in plate.lines if one.series == PEER), None)
    apart = [one for one in shown if one is not peer] if peer is not None else []
    half = plate.figure["batches"] / 2
    panels = [
        panel(plate, filename("training", family or ""), "all batches", [_over(one, 0) for one in shown], "batches",
              TRAINING),
        panel(plate, filename("training second half", family or ""), "second half",
              [_over(one, half) for one in shown], "batches", TRAINING, level=False),
        panel(plate, filename("to 32 heads", family or ""), f"difference to {PEER}",
              [_difference(one, peer) for one in apart if peer is not None], "batches",
              "training cost minus that of 32 heads (nats a token)", level=False),
        panel(plate, filename("held out", family or ""), "held-out cost",
              [curve(one.name, one.slot, [dict(seed.held_out) for seed in one.seeds]) for one in shown], "batches",
              HELD_OUT, marks=True),
    ]  # fmt: skip
    heading = f"Training cost: {family}" if family else "Training cost"
    return exhibit(plate, filename("medians", family or ""), heading, says, panels, names(shown))


def _middles(seed: Seed) -> dict[float, float]:
    return {(first + last) / 2: cost for first, last, cost in seed.medians}


def _over(one: Line, least: float) -> Curve | None:
    seeds = [{x: y for x, y in _middles(seed).items() if x >= least} for seed in one.seeds]
    return curve(one.name, one.slot, seeds)


def _difference(one: Line, peer: Line) -> Curve | None:
    pairs = [(_middles(own), _middles(other)) for own, other in zip(one.seeds, peer.seeds, strict=True)]
    return curve(one.name, one.slot, [{x: own[x] - other[x] for x in own if x in other} for own, other in pairs])


def _every(plate: Plate) -> Exhibit | None:
    """Every batch: the band from the lowest to the highest of a few neighbours, and their median."""
    stretch = max(1, -(-plate.figure["batches"] // MOST))
    drawn = [_neighbours(one, stretch) for one in plate.lines]
    says = (
        f"The cost of every batch: the band goes from the lowest to the highest of {stretch:,} neighbours, the line is "
        "their median."
        if stretch > 1
        else "The cost of every batch."
    )
    panels = [panel(plate, "batches", "batches", drawn, "batches", TRAINING, band=stretch > 1)]
    return exhibit(plate, "batches", "Every batch", says, panels, names(plate.lines))


def _neighbours(one: Line, stretch: int) -> Curve | None:
    every = one.seeds[0].every
    parts = [every[first : first + stretch] for first in range(0, len(every), stretch)]
    if not parts:
        return None
    costs = [sorted(cost for _, cost in part) for part in parts]
    middles = [(part[0][0] + part[-1][0]) / 2 for part in parts]
    medians = [each[len(each) // 2] for each in costs]
    return Curve(one.name, one.slot, middles, medians, [each[0] for each in costs], [each[-1] for each in costs])


def _sweep(plate: Plate) -> Exhibit | None:
    """The end of training over what the figure varies; cells that are not finished are left out, and named so."""
    stretch, over = plate.figure["stretch"], plate.figure["over"]
    says = f"Median of the training cost over the last {stretch:,} batches, and held-out cost, against {over}."
    says += " Cells that are not finished are left out of the curves." + _bands(plate)
    series = dict.fromkeys(one.series for one in plate.lines)
    grouped = [[one for one in plate.lines if one.series == name] for name in series]
    panels = [
        panel(plate, name, name, [_ends(own, column) for own in grouped], over, y, log=True, marks=True)
        for name, column, y in (("training", "training", TRAINING), ("held-out", "held_out", HELD_OUT))
    ]
    called = [(_called(own), own[0].slot) for own in grouped if any(one.known("held_out") for one in own)]
    return exhibit(plate, "sweep", f"Cost against {over}", says, panels, called)


def _called(own: Sequence[Line]) -> str:
    return own[0].series if all(one.finished for one in own) else f"{own[0].series} (unfinished)"


def _ends(own: Sequence[Line], column: str) -> Curve | None:
    count = len(own[0].seeds)
    seeds: list[dict[float, float]] = [{} for _ in range(count)]
    for one in own:
        for at, seed in enumerate(one.seeds):
            if seed.row["finished"] and seed.row[column] is not None and one.x is not None:
                seeds[at][one.x] = seed.row[column]
    return curve(_called(own), own[0].slot, seeds)


def _bands(plate: Plate) -> str:
    return " The band goes from the lowest to the highest seed, the line is their mean." if plate.several else ""

"""The charts of a study, by its kind: medians over batches, every batch, the end over a setting, loss against price."""

from collections.abc import Sequence
from statistics import fmean

from seqloom.report import tradeoffs
from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, all_rounded, filename
from seqloom.report.charts.style import LineStyle, styles
from seqloom.report.medians import every_stretch
from seqloom_studies.paper.compared import PEER, Loss
from seqloom_studies.paper.page_rows import Column, Line, Seed, Study

TRAINING, HELD_OUT = "training loss (nats per token)", "held-out loss (nats per token)"
BATCHES = Axis("batches", "batches")
MOST = 400
"""points of a curve that shows every batch: the lowest, the median and the highest of each stretch"""
Points = dict[float, float]
"""y by x, of one seed"""


def charts(study: Study) -> list[Chart]:
    """The charts of a study; [] where no cell has anything to show yet."""
    charts_by_kind = {
        "curves": lambda: [chart for family in dict.fromkeys(line.family for line in study.lines)
                           for chart in medians(study, family)],
        "batches": lambda: every_batch(study),
        "sweep": lambda: sweep(study),
        "points": lambda: [*prices(study), *medians(study, None)],
    }  # fmt: skip
    return charts_by_kind[study.figure.kind]()


def medians(study: Study, family: str | None) -> list[Chart]:
    """Medians over stretches, their second half, differences to 32 heads, and held-out losses; a chart each."""
    lines = [line for line in study.lines if family is None or line.family == family]
    stretch, half = study.figure.stretch, study.figure.batches / 2
    peer = next((line for line in study.lines if line.series == PEER), None)
    suffix = f": {family}" if family else ""
    description = f"Medians over {stretch:,} batches each; the stretches do not overlap." + _bands(study)
    middles = {line.name: [_middles(seed) for seed in line.seeds] for line in lines}
    second_half = {
        name: [{x: y for x, y in seed.items() if x >= half} for seed in seeds] for name, seeds in middles.items()
    }
    to_peer = {line.name: _differences(line, peer) for line in lines if peer is not None and line is not peer}
    held_out = {
        line.name: [{float(step): loss for step, loss in seed.held_out} for seed in line.seeds] for line in lines
    }
    charts = [
        _curves(study, filename("training", family or ""), f"Training loss{suffix}", description, middles, TRAINING),
        _curves(study, filename("training second half", family or ""), f"Training loss, second half{suffix}",
                description, second_half, TRAINING, level=False),
        _curves(study, filename("to 32 heads", family or ""), f"Difference to 32 heads{suffix}", description, to_peer,
                "training loss minus that of 32 heads", level=False),
        _curves(study, filename("held out", family or ""), f"Held-out loss{suffix}", "At the steps where it was taken."
                + _bands(study), held_out, HELD_OUT, marks=True),
    ]  # fmt: skip
    return [chart for chart in charts if chart is not None]


def every_batch(study: Study) -> list[Chart]:
    """The loss of every batch: the band from the lowest to the highest of a few consecutive ones, and their median."""
    stretch = max(1, -(-study.figure.batches // MOST))
    description = (
        f"The loss of every batch: the band goes from the lowest to the highest of {stretch:,} neighbors, the line is "
        "their median."
        if stretch > 1
        else "The loss of every batch."
    )
    rows: list[list[Cell]] = []
    for line in study.lines:
        for part in every_stretch(line.seeds[0].every, stretch):
            ends = [part.lowest, part.highest] if stretch > 1 else []
            rows.append([line.name, *all_rounded([part.middle, part.median, *ends])])
    head = ["model", "batches", "loss", *(SEEDS if stretch > 1 else [])]
    chart = _chart(
        study, "batches", "Every batch", description, Table(head, rows), Axis("batches", "batches"), TRAINING
    )
    return [chart] if rows else []


def sweep(study: Study) -> list[Chart]:
    """The losses at the end of training over the setting that the study varies, without unfinished cells."""
    stretch, over = study.figure.stretch, study.figure.over
    grouped = [
        [line for line in study.lines if line.series == name]
        for name in dict.fromkeys(line.series for line in study.lines)
    ]
    training = f"Median over the last {stretch:,} batches, against {over}; cells that are not finished are left out."
    held_out = f"After all batches, against {over}; cells that are not finished are left out."
    losses: list[tuple[str, Loss, str, str]] = [
        ("training", "training", TRAINING, training),
        ("held-out", "held_out", HELD_OUT, held_out),
    ]
    charts = []
    for name, column, y, description in losses:
        final_losses = {_series_name(lines): _ends(lines, column) for lines in grouped}
        heading = f"{y.partition(' (')[0].capitalize()} against {over}"
        charts.append(
            _curves(
                study,
                name,
                heading,
                description + _bands(study),
                final_losses,
                y,
                x=Axis(over, over, log=True),
                marks=True,
            )
        )
    return [chart for chart in charts if chart is not None]


def prices(study: Study) -> list[Chart]:
    """Held-out loss against size and, where it was raced, against time."""
    prices: list[tuple[str, Column, float, str]] = [
        ("parameters", "parameters", 1.0, "parameters of the whole model"),
        ("time", "raced", 1e3, "ms per training step, all by turns"),
    ]
    charts = []
    for name, column, factor, words in prices:
        points: dict[str, tradeoffs.Point] = {}
        for line in study.lines:
            price, loss = line.mean(column), line.mean("held_out")
            if price is not None and loss is not None:
                points[line.name] = (factor * price, loss, *(line.span("held_out") or (None, None)))
        if points:
            meaning = (
                "Held-out loss after all batches; lower and further left is better. The line joins the Pareto front."
            )
            charts.append(tradeoffs.chart(name, words, points, styles_of(study), meaning, name=_file(study, name)))
    return charts


def styles_of(study: Study) -> dict[str, LineStyle]:
    """How each line is drawn: by its series, whether it is finished or not."""
    by_series = styles(list(dict.fromkeys(line.series for line in study.lines)))
    return (
        by_series
        | {line.name: by_series[line.series] for line in study.lines}
        | {_describe_unfinished(series): style for series, style in by_series.items()}
    )


def _curves(
    study: Study, name: str, heading: str, description: str, curves: dict[str, list[Points]], y: str, *,
    x: Axis = BATCHES, level: bool = True, marks: bool = False,
) -> Chart | None:  # fmt: skip
    """The chart of several seeds' points by model; None where there are none. The lower bound is a level."""
    banded = ["lowest seed", "highest seed"] if study.several else []
    rows: list[list[Cell]] = []
    for model, seeds in curves.items():
        for x_value in sorted({x_value for seed in seeds for x_value in seed}):
            losses = [seed[x_value] for seed in seeds if x_value in seed]
            rows.append(
                [model, *all_rounded([x_value, fmean(losses), *([min(losses), max(losses)] if banded else [])])]
            )
    if not rows:
        return None
    table = Table(["model", x.column, "loss", *banded], rows)
    return _chart(study, name, heading, description, table, x, y, level=level, marks=marks)


def _chart(
    study: Study, name: str, heading: str, description: str, table: Table, x: Axis, y: str, *,
    level: bool = True, marks: bool = False,
) -> Chart:  # fmt: skip
    levels = study.floor if level else []

    def draw() -> Spec:
        from seqloom.report.charts.curves import curves

        return curves(table, x, Axis("loss", y), styles_of(study), levels=levels, marks=marks)

    return Chart(_file(study, name), heading, description, {"rows": table}, [Choice(heading, draw)])


def _file(study: Study, name: str) -> str:
    return filename(study.figure.name, name)


def _middles(seed: Seed) -> Points:
    """The medians of a run over the middles of their stretches."""
    return {(first + last) / 2: loss for first, last, loss in seed.medians}


def _differences(line: Line, peer: Line) -> list[Points]:
    """For each seed, the medians of a line minus those of the peer, where both have one."""
    middles = {seed.row.seed: _middles(seed) for seed in peer.seeds}
    pairs = [(_middles(seed), middles[seed.row.seed]) for seed in line.seeds if seed.row.seed in middles]
    return [{x: points[x] - peer_points[x] for x in points if x in peer_points} for points, peer_points in pairs]


def _ends(lines: Sequence[Line], column: Loss) -> list[Points]:
    """The final value of each seed, over the setting that the study varies."""
    cells = [(line.x, seed.row) for line in lines for seed in line.seeds if line.x is not None and seed.row.finished]
    by_seed: dict[int, Points] = {}
    for x, cell in cells:
        value = cell.value(column)
        if value is not None:
            by_seed.setdefault(cell.seed, {})[x] = value
    return list(by_seed.values())


def _series_name(lines: Sequence[Line]) -> str:
    return lines[0].series if all(line.is_finished for line in lines) else _describe_unfinished(lines[0].series)


def _describe_unfinished(series: str) -> str:
    return f"{series} (unfinished)"


def _bands(study: Study) -> str:
    return " The band goes from the lowest to the highest seed, the line is their mean." if study.several else ""

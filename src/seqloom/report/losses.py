"""The losses of a comparison as charts: during training, on held-out text, and by position in the window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from seqloom.report.charts.chart import SEEDS, Axis, Cell, Chart, Choice, Spec, Table, all_rounded, round_number
from seqloom.report.comparison import Candidate, Comparison
from seqloom.report.medians import Curve, band, curve, stretches

BANDS = " averaged over the seeds; the band goes from the lowest to the highest seed."


@final
@dataclass(frozen=True)
class Amount:
    """The amount that losses are drawn against: batches times a contender's amount per batch (tokens, seconds, …)."""

    name: str
    label: str
    attribute: str | None

    def per_batch(self, contender: Candidate) -> float | None:
        """The amount of one batch of this contender; None where unknown."""
        return 1.0 if self.attribute is None else getattr(contender, self.attribute)


AMOUNTS = (
    Amount("batches", "batches", None),
    Amount("tokens", "tokens", "tokens_a_batch"),
    Amount("operations", "operations of the forward equation", "operations_a_batch"),
    Amount("seconds", "seconds of training steps", "seconds_a_batch"),
)
LOSS = Axis("loss", "loss (nats per token)")


def training(rows: Comparison) -> list[Chart]:
    """The loss of the training batches; [] where no run has any."""
    contenders = [contender for contender in rows.contenders if any(run.losses for run in contender.seeds)]
    if not contenders:
        return []
    longest = max(run.losses[-1][0] for contender in contenders for run in contender.seeds if run.losses)
    suitable, stretch = stretches(longest)
    curves = {contender.name: curve([run.losses for run in contender.seeds], stretch) for contender in contenders}
    raw = {contender.name: curve([run.losses for run in contender.seeds], suitable[0]) for contender in contenders}
    table = _by_batches(contenders, curves)
    raw_points = [[name, *point] for name, line in raw.items() for point in _points(line, several=False)]
    several = any(len(contender.seeds) > 1 for contender in contenders)
    description = f"Each point is the median of {stretch:,} batches" + ("," + BANDS if several else ".")
    if stretch > suitable[0]:
        description += f" Faint: {'every batch' if suitable[0] == 1 else f'medians of {suitable[0]:,} batches'}."
    amounts = [amount for amount in AMOUNTS if amount.name in table.head]
    choices = [
        Choice(
            amount.label,
            partial(
                _draw,
                table,
                Axis(amount.name, amount.label),
                rows,
                levels=levels(rows),
                cut=True,
                raw=_per_batch(contenders, amount) if stretch > suitable[0] else None,
                borders=borders(contenders, amount),
            ),
        )
        for amount in amounts
    ]
    tables = {"rows": table, "raw": Table(["model", "batches", "loss"], raw_points)}
    return [Chart("training", "Training loss", description, tables, choices, "Against")]


def _per_batch(contenders: Sequence[Candidate], amount: Amount) -> dict[str, float]:
    """The amount of one batch by contender, of those of which it is known."""
    amounts = {contender.name: amount.per_batch(contender) for contender in contenders}
    return {name: each for name, each in amounts.items() if each is not None}


def held_out(rows: Comparison) -> list[Chart]:
    """The held-out loss during training; [] where it was not taken at several steps."""
    curves = {contender.name: curve([run.held_out for run in contender.seeds], 1) for contender in rows.contenders}
    contenders = [contender for contender in rows.contenders if curves[contender.name].batches]
    if all(len(line.batches) < 2 for line in curves.values()):
        return []
    table = _by_batches(contenders, curves)
    options = {"levels": levels(rows), "borders": borders(contenders, AMOUNTS[0]), "marks": True, "cut": True}
    draw = partial(_draw, table, Axis("batches", "batches"), rows, **options)
    description = "At the steps where it was taken, averaged over the seeds."
    return [Chart("held-out", "Held-out loss during training", description, {"rows": table}, [Choice("batches", draw)])]


def by_position(rows: Comparison) -> list[Chart]:
    """The held-out loss by position in the window; [] where no contender has it."""
    bands = {contender.name: band(contender.by_position) for contender in rows.contenders}
    curves = [(contender, bands[contender.name]) for contender in rows.contenders if bands[contender.name].batches]
    if not curves:
        return []
    several = any(len(contender.by_position) > 1 for contender, _ in curves)
    points = [[contender.name, *point] for contender, line in curves for point in _points(line, several)]
    table = Table(["model", "tokens before", "loss", *(SEEDS if several else ())], points)
    # the other level, the entropy of single tokens, is far above the losses
    floor = [level for level in levels(rows) if level[0].startswith("lower bound")]
    draw = partial(_draw, table, Axis("tokens before", "tokens before it in the window"), rows, levels=floor)
    description = "Mean held-out loss of the token that follows 1, 2, … tokens of its window" + (
        "," + BANDS if several else "."
    )
    return [Chart("position", "Loss by position", description, {"rows": table}, [Choice("position", draw)])]


def levels(rows: Comparison) -> list[tuple[str, float]]:
    """The reference losses that a chart shows as lines, where they are known."""
    known = [("entropy of single tokens", rows.text.unigram), ("lower bound of the loss", rows.text.floor)]
    return [(name, value) for name, value in known if value is not None]


def borders(contenders: Sequence[Candidate], amount: Amount) -> list[tuple[str, float]]:
    """Where each stage of a training begins, for those that have stages; equal borders are listed once."""
    stages: dict[tuple[str, float], None] = {}
    for contender in contenders:
        factor = amount.per_batch(contender)
        if factor is None or not contender.seeds:
            continue
        for number, step in enumerate(contender.seeds[0].stages, 2):
            stages[f"stage {number}", float(step * factor)] = None
    return list(stages)


def _by_batches(contenders: Sequence[Candidate], curves: Mapping[str, Curve]) -> Table:
    """The points of all curves, with every amount that is known of some contender."""
    amounts = [amount for amount in AMOUNTS if any(amount.per_batch(contender) is not None for contender in contenders)]
    several = any(len(contender.seeds) > 1 for contender in contenders)
    rows: list[list[Cell]] = []
    for contender in contenders:
        factors = [amount.per_batch(contender) for amount in amounts]
        for batches, *losses in _points(curves[contender.name], several):
            xs = [None if factor is None else round_number(float(batches or 0) * factor) for factor in factors]
            rows.append([contender.name, *xs, *losses])
    return Table(["model", *(amount.name for amount in amounts), "loss", *(SEEDS if several else ())], rows)


def _points(line: Curve, several: bool) -> list[list[float | int | None]]:
    """The points of a curve: position, mean and, with several seeds, the lowest and the highest one."""
    points = zip(line.batches, line.mean, *((line.low, line.high) if several else ()), strict=True)
    return [all_rounded(point) for point in points]


def _draw(table: Table, x: Axis, rows: Comparison, **options: Any) -> Spec:
    from seqloom.report.charts.curves import curves

    return curves(table, x, LOSS, rows.styles, **options)

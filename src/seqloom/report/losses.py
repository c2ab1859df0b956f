"""The losses of a comparison as charts: during training, on held-out text, and by position in the window."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, final

from seqloom.report.charts.chart import Axis, Cell, Chart, Choice, Spec, Table, all_rounded, rounded
from seqloom.report.comparison import Comparison, Contender
from seqloom.report.medians import Curve, band, curve, stretches

SEEDS = ("lowest seed", "highest seed")
BANDS = " averaged over the seeds; the band goes from the lowest to the highest seed."


@final
@dataclass(frozen=True)
class Amount:
    """What losses are drawn against: a number of batches times what one batch is of it for a contender."""

    name: str
    label: str
    attribute: str | None

    def per_batch(self, each: Contender) -> float | None:
        """How much one batch is for this contender; None where unknown."""
        return 1.0 if self.attribute is None else getattr(each, self.attribute)


AMOUNTS = (
    Amount("batches", "batches", None),
    Amount("tokens", "tokens", "tokens_a_batch"),
    Amount("operations", "operations of the forward equation", "operations_a_batch"),
    Amount("seconds", "seconds of training steps", "seconds_a_batch"),
)
LOSS = Axis("loss", "loss (nats per token)")


def training(rows: Comparison) -> list[Chart]:
    """The loss of the training batches; [] where no run has any."""
    shown = [each for each in rows.contenders if any(run.losses for run in each.seeds)]
    if not shown:
        return []
    longest = max(run.losses[-1][0] for each in shown for run in each.seeds if run.losses)
    choices, usual = stretches(longest)
    smooth = {each.name: curve([run.losses for run in each.seeds], usual) for each in shown}
    raw = {each.name: curve([run.losses for run in each.seeds], choices[0]) for each in shown}
    table = _by_batches(shown, smooth)
    faint = [[name, *point] for name, one in raw.items() for point in _points(one, several=False)]
    several = any(len(each.seeds) > 1 for each in shown)
    description = f"Each point is the median of {usual:,} batches" + ("," + BANDS if several else ".")
    if usual > choices[0]:
        description += f" Faint: {'every batch' if choices[0] == 1 else f'medians of {choices[0]:,} batches'}."
    known = [amount for amount in AMOUNTS if amount.name in table.head]
    drawn = [
        Choice(amount.label, partial(
            _drawn, table, Axis(amount.name, amount.label), rows, levels=levels(rows),
            raw={each.name: amount.per_batch(each) or 0.0 for each in shown} if usual > choices[0] else None,
            borders=borders(shown, amount)))
        for amount in known
    ]  # fmt: skip
    tables = {"rows": table, "raw": Table(["model", "batches", "loss"], faint)}
    return [Chart("training", "Training loss", description, tables, drawn, "Against")]


def held_out(rows: Comparison) -> list[Chart]:
    """The held-out loss during training; [] where it was not taken at several steps."""
    found = {each.name: curve([run.held_out for run in each.seeds], 1) for each in rows.contenders}
    shown = [each for each in rows.contenders if found[each.name].batches]
    if all(len(one.batches) < 2 for one in found.values()):
        return []
    table = _by_batches(shown, found)
    options = {"levels": levels(rows), "borders": borders(shown, AMOUNTS[0]), "marks": True}
    draw = partial(_drawn, table, Axis("batches", "batches"), rows, **options)
    description = "At the steps where it was taken, averaged over the seeds."
    return [Chart("held-out", "Held-out loss during training", description, {"rows": table}, [Choice("batches", draw)])]


def by_position(rows: Comparison) -> list[Chart]:
    """The held-out loss by position in the window; [] where no contender has it."""
    found = {each.name: band(each.by_position) for each in rows.contenders}
    shown = [(each, found[each.name]) for each in rows.contenders if found[each.name].batches]
    if not shown:
        return []
    several = any(len(each.by_position) > 1 for each, _ in shown)
    points = [[each.name, *point] for each, one in shown for point in _points(one, several)]
    table = Table(["model", "tokens before", "loss", *(SEEDS if several else ())], points)
    floor = [level for level in levels(rows) if level[0].startswith("floor")]  # the others are far above
    draw = partial(_drawn, table, Axis("tokens before", "tokens before it in the window"), rows, levels=floor)
    description = "Mean held-out loss of the token that follows 1, 2, … tokens of its window" + (
        "," + BANDS if several else "."
    )
    return [Chart("position", "Loss by position", description, {"rows": table}, [Choice("position", draw)])]


def levels(rows: Comparison) -> list[tuple[str, float]]:
    """The losses that a chart of losses shows as lines, where they are known."""
    known = [("entropy of single tokens", rows.text.unigram), ("floor of the text", rows.text.floor)]
    return [(name, value) for name, value in known if value is not None]


def borders(shown: Sequence[Contender], amount: Amount) -> list[tuple[str, float]]:
    """Where each stage of a training begins, for those that have stages; equal borders are one."""
    found: dict[tuple[str, float], None] = {}
    for each in shown:
        factor = amount.per_batch(each)
        for number, step in enumerate(each.seeds[0].stages if each.seeds and factor is not None else [], 2):
            found[f"stage {number}", float(step * (factor or 0.0))] = None
    return list(found)


def _by_batches(shown: Sequence[Contender], found: Mapping[str, Curve]) -> Table:
    """The points of all curves, with every amount that is known of some contender."""
    amounts = [one for one in AMOUNTS if any(one.per_batch(each) is not None for each in shown)]
    several = any(len(each.seeds) > 1 for each in shown)
    made: list[list[Cell]] = []
    for each in shown:
        factors = [amount.per_batch(each) for amount in amounts]
        for batches, *losses in _points(found[each.name], several):
            at = [None if factor is None else rounded(float(batches or 0) * factor) for factor in factors]
            made.append([each.name, *at, *losses])
    return Table(["model", *(one.name for one in amounts), "loss", *(SEEDS if several else ())], made)


def _points(one: Curve, several: bool) -> list[list[float | int | None]]:
    """The points of a curve: where, the mean and, of several seeds, the lowest and the highest one."""
    points = zip(one.batches, one.mean, *((one.low, one.high) if several else ()), strict=True)
    return [all_rounded(point) for point in points]


def _drawn(table: Table, x: Axis, rows: Comparison, **options: Any) -> Spec:
    from seqloom.report.charts.curves import curves

    return curves(table, x, LOSS, rows.looks, **options)

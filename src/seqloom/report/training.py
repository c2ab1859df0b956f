"""Training curves: cost against batches, tokens, operations and seconds; and held-out cost during training."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

from seqloom.report.comparison import Comparison, Contender
from seqloom.report.curves import Curve, curve, stretches
from seqloom.report.exhibit import COST, Cell, Exhibit, Panel, all_rounded, axis, names, rounded
from seqloom.report.figures import Axis, Level, Series, lines

Y = "training cost (nats a token)"


@final
@dataclass(frozen=True)
class Amount:
    """What a curve can be drawn against: a count of batches times `factor`."""

    name: str
    label: str
    attribute: str | None

    def factor(self, each: Contender) -> float | None:
        """How much one batch is for this contender; None where unknown."""
        return 1.0 if self.attribute is None else getattr(each, self.attribute)


AMOUNTS = (
    Amount("batches", "batches", None),
    Amount("tokens", "tokens", "tokens_a_batch"),
    Amount("operations", "operations of the forward equation", "operations_a_batch"),
    Amount("seconds", "seconds of training steps", "seconds_a_batch"),
)


def exhibits(found: Comparison) -> list[Exhibit]:
    """The training curves, and the held-out cost during training where it was taken at several steps."""
    return [each for each in (_training(found), _held_out(found)) if each]


def levels(found: Comparison) -> list[tuple[str, float]]:
    """The costs that every figure of costs shows as a line, where they are known."""
    known = [("entropy of single tokens", found.text.unigram), ("floor of the text", found.text.floor)]
    return [(name, value) for name, value in known if value is not None]


def _training(found: Comparison) -> Exhibit | None:
    shown = [each for each in found.contenders if any(run.costs for run in each.seeds)]
    if not shown:
        return None
    longest = max(run.costs[-1][0] for each in shown for run in each.seeds if run.costs)
    choices, usual = stretches(longest)
    drawn = {choice: [(each, curve([run.costs for run in each.seeds], choice)) for each in shown] for choice in choices}
    amounts = [each for each in AMOUNTS if any(each.factor(one) is not None for one in shown)]
    several = any(len(each.seeds) > 1 for each in shown)
    says = (
        f"Cost of the training batches; each point is the median of {usual} batches"
        + (", averaged over the seeds; the band goes from the lowest to the highest seed." if several else ".")
        + " The stretches do not overlap."
    )
    shared: dict[str, Any] = {
        "stretches": {str(choice): [line(*pair) for pair in pairs] for choice, pairs in drawn.items()},
        "usual": usual,
        "levels": levels(found),
        "held": [line(each, one) | {"held": True} for each, one in _held_curves(found)],
    }
    panels = [_panel(f"training-by-{amount.name}", amount, drawn[usual], found, Y, says) for amount in amounts]
    return Exhibit("training", "Training cost", says, panels, "Against", names(shown), shared)


def _held_out(found: Comparison) -> Exhibit | None:
    pairs = _held_curves(found)
    if not pairs:
        return None
    says = "Held-out cost at the steps where it was taken, averaged over the seeds."
    panel = _panel("held-out-by-batches", AMOUNTS[0], pairs, found, COST, says, marks=True)
    return Exhibit("held-out", "Held-out cost during training", says, [panel], names=names([each for each, _ in pairs]))


def _held_curves(found: Comparison) -> list[tuple[Contender, Curve]]:
    """The held-out costs by step; [] unless some contender has them at several steps."""
    pairs = [(each, curve([run.held_out for run in each.seeds], 1)) for each in found.contenders]
    return [pair for pair in pairs if pair[1].batches] if any(len(one.batches) > 1 for _, one in pairs) else []


def _panel(
    name: str, amount: Amount, pairs: Sequence[tuple[Contender, Curve]], found: Comparison, y: str, says: str,
    *, marks: bool = False,
) -> Panel:  # fmt: skip
    factors = [(each, one, amount.factor(each)) for each, one in pairs]
    drawn = [(each, one, factor) for each, one, factor in factors if factor is not None]
    series = [
        Series(
            each.name, [at * factor for at in one.batches], one.mean, each.slot,
            low=one.low if len(each.seeds) > 1 else None, high=one.high if len(each.seeds) > 1 else None, marks=marks,
        )
        for each, one, factor in drawn
    ]  # fmt: skip
    svg = lines(
        series, title=f"{y} against {amount.label}", description=says, x=Axis(amount.label), y=Axis(y),
        levels=[Level(*level) for level in levels(found)],
    )  # fmt: skip
    plot: dict[str, Any] = {"kind": "curves", "x": axis(amount.label), "y": axis(y)}
    plot["factors"] = {each.name: rounded(factor) for each, _, factor in drawn}
    if marks:
        plot |= {"kind": "lines", "levels": levels(found)}
        plot["series"] = [line(each, one) | {"marks": True} for each, one in pairs]
    return Panel(name, amount.label, svg, *_numbers(pairs), plot)


def _numbers(pairs: Sequence[tuple[Contender, Curve]]) -> tuple[list[str], list[list[Cell]]]:
    """The points of all curves, with every amount that is known: the same table whatever they are drawn against."""
    amounts = [one for one in AMOUNTS if any(one.factor(each) is not None for each, _ in pairs)]
    rows: list[list[Cell]] = [
        [
            each.name,
            *(None if (factor := one.factor(each)) is None else rounded(at * factor) for one in amounts),
            *all_rounded([mean, low, high]),
        ]
        for each, drawn in pairs
        for at, mean, low, high in zip(drawn.batches, drawn.mean, drawn.low, drawn.high, strict=True)
    ]
    return ["contender", *(one.name for one in amounts), "mean", "lowest seed", "highest seed"], rows


def line(each: Contender, one: Curve) -> dict[str, Any]:
    """A curve as page.js reads it; the band only where there are seeds to compare."""
    made: dict[str, Any] = {"name": each.name, "slot": each.slot, "x": all_rounded(one.batches)}
    made["y"] = all_rounded(one.mean)
    return made | ({"low": all_rounded(one.low), "high": all_rounded(one.high)} if len(each.seeds) > 1 else {})

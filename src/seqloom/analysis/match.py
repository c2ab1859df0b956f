"""Fairness as a function: one size of a model is changed until the model equals another in size, operations or time.

    params   trainable numbers              of all layers and the norms around them: the token and position tables and
    mul      multiplications of one row     the head (the last linear layer and its softmax) are left aside
    time     seconds of a training step     of the whole model, as measured here in this process

The sizes that may move are `ffn`, `dim` and `depth`, one at a time. Counts must agree within 1%, times within 5%: two
timings of the same model differ by more than 1%, so that a match to 1% would mean nothing.

Source: ours. The Extractor paper compares models of equal sizes and unequal price.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

from seqloom.analysis.sizes import By, Counted, at, has_ffn, nearest, quantity, size_of, title
from seqloom.analysis.timed import TimedSizes
from seqloom.core.layered import LayeredConfig
from seqloom.core.table import format_cell

__all__ = ["By", "Equal", "Match", "match", "quantity"]

Equal: TypeAlias = Literal["params", "mul", "time"]
WITHIN = {"params": 1, "mul": 1, "time": 5}
"""how near the quantities must be, in percent"""


@final
@dataclass(frozen=True)
class Match:
    """A model changed in one size to equal another; as text, one line about the change."""

    config: LayeredConfig
    """the changed model"""
    to: LayeredConfig
    """the other model, as given"""
    equal: Equal
    by: By
    before: int
    """the size `by` that was given"""
    after: int
    """the size `by` of `config`"""
    quantity: int | float
    """the quantity of `config`; of time, seconds: the median ratio to the other, round by round, times its median"""
    aim: int | float
    """the quantity of `to`"""

    @property
    def difference(self) -> float:
        """The difference of `config` to `to`, as a share of the latter; negative where it is less."""
        return (self.quantity - self.aim) / self.aim

    @property
    def close(self) -> bool:
        """Whether the quantity is within 1% of the other model's, or within 5% where it is time."""
        return 100 * abs(self.quantity - self.aim) <= WITHIN[self.equal] * self.aim

    def __str__(self) -> str:
        change = f"{self.before:,} → {self.after:,}" if self.before != self.after else f"{self.after:,} stays"
        tables = "included" if self.equal == "time" else "aside"
        return f"{title(self.config)}: {self.by} {change}, {self.comparison}, embeddings and head {tables}"

    @property
    def comparison(self) -> str:
        """Both quantities and their difference, in words."""
        words = {"params": "parameters", "mul": "multiplications", "time": "ms a training step"}[self.equal]
        own, aim = (
            f"{number:,}" if isinstance(number, int) else format_cell(1e3 * number)
            for number in (self.quantity, self.aim)
        )
        quantity, other = f"{own} {words}", f"the {aim} of {title(self.to)}"
        if self.quantity == self.aim:
            return f"{quantity}, exactly {other}"
        side = "above" if self.quantity > self.aim else "below"
        return f"{quantity}, {format_cell(100 * abs(self.difference))}% {side} {other}"


def match(
    config: LayeredConfig, to: LayeredConfig, *, equal: Equal = "params", by: By = "ffn", row: TimedSizes | None = None
) -> Match:
    """Changes only the size `by` of `config`, to the value at which its quantity is nearest to that of `to`.

    Of two sizes that are equally near the smaller is taken. `row`, for time alone, is what
    `studies.match_time.match_time` timed in this process; the nearest of its sizes is taken. ValueError if that is not
    within 1% (time: 5%), which names the nearest size and another way to match; if a model cannot be built; if `row` is
    missing, or of other models, another size, machine or process; and if `mul` or time is asked for between different
    contexts.
    """
    for name, value, known in (("equal", equal, get_args(Equal)), ("by", by, get_args(By))):
        if value not in known:
            raise ValueError(f"{name} must be {' or '.join(known)}, not {value!r}")
    if by == "ffn" and not has_ffn(config):
        raise ValueError(f"{title(config)} has no feed-forward network: match by {' or '.join(_others(by))} instead")
    if equal != "params" and config.context != to.context:
        raise ValueError(
            f"{'multiplications' if equal == 'mul' else 'times'} of rows of {config.context:,} and of {to.context:,} "
            "tokens do not compare: give both models the same context, or match params"
        )
    if equal == "time":
        return _by_time(config, to, by, row)
    if row is not None:
        raise ValueError(f"times say nothing about {equal}: give a row with equal='time' alone")
    return _by_count(config, to, equal, by)


def _by_count(config: LayeredConfig, to: LayeredConfig, equal: Counted, by: By) -> Match:
    """The match in a quantity that is counted. ValueError, with advice, where no size is close enough."""
    aim = quantity(to, equal)
    quantity(config, equal)  # raises the error of a model that cannot be built

    def match_size(by: By) -> Match:
        size = nearest(config, equal, by, aim)
        changed = at(config, by, size)
        return Match(changed, to, equal, by, size_of(config, by), size, quantity(changed, equal), aim)

    best = match_size(by)
    if best.close:
        return best
    others = _others(by)
    close_sizes = [other for other in others if (other != "ffn" or has_ffn(config)) and match_size(other).close]
    advice = f"match by {' or '.join(close_sizes)} instead" if close_sizes else f"{' and '.join(others)} cannot either"
    raise ValueError(
        f"no {by} brings {title(config)} within 1% of {title(to)}: "
        f"the nearest, {by} {best.after:,}, has {best.comparison}; {advice}"
    )


def _by_time(config: LayeredConfig, to: LayeredConfig, by: By, row: TimedSizes | None) -> Match:
    """The match in time, from the timed sizes. ValueError, with advice, where none is close enough."""
    if row is None:
        raise ValueError("to match time, time it first: row=seqloom.studies.match_time.clock(config, to, by, training)")
    row.require(config, to, by)
    size = row.nearest
    result = Match(at(config, by, size), to, "time", by, size_of(config, by), size, row.seconds(size), row.other.median)
    if result.close:
        return result
    own_title, advice = title(config), f"match by {' or '.join(_others(by))} instead"
    if size == min(row.sizes) and result.difference > 0:
        raise ValueError(f"{own_title} is slower than {title(to)} even at {by} {size:,}: {result.comparison}; {advice}")
    if size == max(row.sizes) and result.difference < 0:
        raise ValueError(
            f"{own_title} is quicker than {title(to)} even at {by} {size:,}: {result.comparison}; {advice}"
        )
    raise ValueError(
        f"no {by} that was timed brings {own_title} within 5% of {title(to)}: the nearest, {by} {size:,}, takes "
        f"{result.comparison}; time it again with more repeats while nothing else runs, or {advice}"
    )


def _others(by: By) -> list[By]:
    return [other for other in get_args(By) if other != by]

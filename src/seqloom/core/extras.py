"""The extras of a pass in training: auxiliary losses and statistics, by name.

They are returned by the pass and stored on no module, so that they survive compilation, recomputation and batches read
in pieces. Which names there are depends on the settings of the mixer alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import final

from torch import Tensor


@final
@dataclass(frozen=True)
class Extras:
    """The auxiliary losses and the statistics of one pass."""

    losses: Mapping[str, Tensor] = field(default_factory=dict)
    """scalars, means over the kept tokens, with gradients"""
    statistics: Mapping[str, Tensor] = field(default_factory=dict)
    """sums over the kept tokens, without gradients: those of several passes are added"""

    def under(self, prefix: str) -> "Extras":
        """The same with `prefix.` before each name: a layer's extras as part of its model's."""
        return Extras(
            {f"{prefix}.{name}": loss for name, loss in self.losses.items()},
            {f"{prefix}.{name}": value for name, value in self.statistics.items()},
        )


def merged(parts: Iterable[Extras]) -> Extras:
    """The extras of several parts of a model, whose names differ, as one."""
    losses: dict[str, Tensor] = {}
    statistics: dict[str, Tensor] = {}
    for part in parts:
        losses |= part.losses
        statistics |= part.statistics
    return Extras(losses, statistics)


def weighted(passes: Iterable[tuple[Extras, Tensor]]) -> Extras:
    """The extras of several passes of one model, each with its share of the kept tokens: means, and sums."""
    losses: dict[str, Tensor] = {}
    statistics: dict[str, Tensor] = {}
    for extras, share in passes:
        losses = added(losses, {name: share * loss for name, loss in extras.losses.items()})
        statistics = added(statistics, extras.statistics)
    return Extras(losses, statistics)


def within(values: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The values under `prefix.`, with the prefix taken off: those of one part of a model."""
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def added(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The sums of two passes together; a name that one of them lacks counts as 0 there."""
    total = dict(first)
    for name, value in second.items():
        total[name] = total[name] + value if name in total else value
    return total

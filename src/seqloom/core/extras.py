"""The extras of a forward pass in training: auxiliary losses and statistics, by name.

A pass returns them, and no module stores them, so that compilation, recomputation and batches that are read in pieces
do not lose them. Which names a mixer returns depends on its settings alone.
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
    """sums over the kept tokens, without gradients; the statistics of several passes are added"""

    def under(self, prefix: str) -> "Extras":
        """The same with `prefix.` before each name: a layer's extras as part of its model's."""
        return Extras(
            {f"{prefix}.{name}": loss for name, loss in self.losses.items()},
            {f"{prefix}.{name}": value for name, value in self.statistics.items()},
        )


def merge_extras(parts: Iterable[Extras]) -> Extras:
    """One Extras of those of several parts of a model, whose names differ."""
    losses: dict[str, Tensor] = {}
    statistics: dict[str, Tensor] = {}
    for part in parts:
        losses |= part.losses
        statistics |= part.statistics
    return Extras(losses, statistics)


def weight_extras(passes: Iterable[tuple[Extras, Tensor]]) -> Extras:
    """The extras of several passes of a model as one; each comes with its pass's share of the kept tokens.

    Losses are averaged by these shares, statistics are added.
    """
    losses: dict[str, Tensor] = {}
    statistics: dict[str, Tensor] = {}
    for extras, share in passes:
        losses = add_statistics(losses, {name: share * loss for name, loss in extras.losses.items()})
        statistics = add_statistics(statistics, extras.statistics)
    return Extras(losses, statistics)


def without_prefix(values: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The values whose names begin with `prefix.`, by their names without it: the values of one part of a model."""
    start = f"{prefix}."
    return {name.removeprefix(start): value for name, value in values.items() if name.startswith(start)}


def add_statistics(first: Mapping[str, Tensor], second: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The statistics of two passes added by name; a name that one pass lacks counts as 0 there."""
    total = dict(first)
    for name, value in second.items():
        total[name] = total[name] + value if name in total else value
    return total

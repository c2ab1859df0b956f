"""Mixers whose views are wrong."""

import torch
from torch import Tensor

from seqloom.core.view import View
from tests.contract.faults import caught_by
from tests.contract.sound import Average


@caught_by(check_views="depends on the other rows")
class ShowsTheBatch(Average):
    """A view of all rows together."""

    def plots(self, x: Tensor) -> list[View]:
        return [View("inputs", "the mean over rows", ("position", "channel"), x.mean(0))]


@caught_by(check_views="share a name")
class ShowsTwice(Average):
    """Two views of one name."""

    def plots(self, x: Tensor) -> list[View]:
        return [View("inputs", "the first row", ("position", "channel"), x[0])] * 2


@caught_by(check_views="axes")
class ShowsTooMuch(Average):
    """A view of three axes."""

    def plots(self, x: Tensor) -> list[View]:
        return [View("inputs", "all rows", ("row", "position", "channel"), x)]


@caught_by(check_views="finite")
class ShowsNothing(Average):
    """A view with NaN."""

    def plots(self, x: Tensor) -> list[View]:
        return [View("logarithms", "of the first row", ("position", "channel"), torch.log(x[0] * 0))]

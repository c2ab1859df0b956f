"""Mixers whose outputs depend on dropped tokens or on other rows."""

import torch
from torch import Tensor

from seqloom.core.state import State
from seqloom.ops.past.pack import pack
from tests.contract.faults import caught_by
from tests.contract.sound import Average
from tests.contract.sound_others import Cached


@caught_by(check_keep_forward="off by")
class CountsDropped(Average):
    """Dropped tokens are set to zero, but still count in the mean."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        if keep is None:
            return super().forward(x)
        return torch.where(keep[..., None], super().forward(torch.where(keep[..., None], x, 0.0)), 0.0)


@caught_by(check_keep_forward="nan in dropped", check_keep_reading="nan in dropped")
class MultipliesByKeep(Average):
    """Dropped tokens are multiplied by 0, which leaves NaN."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x if keep is None else x * keep[..., None], keep) + 0.0 * x

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        y, state = super().extend(x, state, keep)
        return y, {**state, "total": state["total"] + 0.0 * x.sum(1)}


@caught_by(check_keep_forward="are not 0", check_keep_reading="are not 0")
class WritesAtDropped(Average):
    """Outputs at dropped positions are tiny, not 0."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        y = super().forward(x, keep)
        return y if keep is None else torch.where(keep[..., None], y, 1e-30)

    def extend(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State]:
        y, state = super().extend(x, state, keep)
        return (y if keep is None else torch.where(keep[..., None], y, 1e-30)), state


@caught_by(check_keep_reading="count kept")
class SeesDropped(Average):
    """`length` counts dropped tokens too."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        return super().carry(x, state, torch.full_like(lengths, x.shape[1]))


@caught_by(check_keep_reading="off by", check_rows="off by")
class TrustsTheFirstRow(Cached):
    """Assumes that every row has read as many tokens as the first."""

    def carry(self, x: Tensor, state: State, lengths: Tensor) -> tuple[Tensor, State]:
        y, after = super().carry(x, {**state, "length": state["length"][:1].expand_as(state["length"])}, lengths)
        return y, {**after, "length": state["length"] + lengths}


@caught_by(check_rows="off by nan")
class SharesItsScale(Average):
    """Divides by the largest number of the whole batch and multiplies by it again, which NaN survives."""

    def mix(self, x: Tensor) -> Tensor:
        largest = x.abs().max() if x.numel() else 1.0
        return super().mix(x / largest * largest)


@caught_by(check_rows="off by .*e-08")
class PeeksAtOthers(Average):
    """Adds 1e-8 of the mean over rows."""

    def mix(self, x: Tensor) -> Tensor:
        return super().mix(x) + 1e-8 * x.mean(0, keepdim=True)


@caught_by(check_keep_forward="off by")
class SaysNothingOfKeep(Average):
    """Packs, but does not scatter the packed rows back."""

    def forward(self, x: Tensor, keep: Tensor | None = None) -> Tensor:
        return super().forward(x) if keep is None else self.mix(pack(x, keep)[0])

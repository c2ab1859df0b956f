"""Random numbers that do not depend on how many processes share the rows of a batch."""

import torch
from torch import Tensor, nn


class RowDraws(nn.Module):
    """A layer that draws numbers for all rows of a batch and uses those of its rows, whatever the number of `ranks`."""

    rank: int = 0
    ranks: int = 1
    """processes that share the rows of a batch evenly, in order; this process is number `rank`"""

    def uniform(self, like: Tensor) -> Tensor:
        """Numbers in [0, 1) of the shape and device of `like` (B, …)."""
        wide = torch.promote_types(like.dtype, torch.float32)
        return torch.rand(self.ranks, *like.shape, dtype=wide, device=like.device)[self.rank]

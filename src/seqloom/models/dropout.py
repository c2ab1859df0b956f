"""Dropout with four draws from each 64 random bits: on a CPU torch draws one number a place, which takes far longer.

    y = x ∘ m / (1 - p),   m = 0 with probability p, else 1;   p to the nearest 1/65536, so 0.1 is 0.100006

Source: Srivastava et al., Dropout, JMLR 15, 2014, with the scale in training as is usual. Nothing else differs.
"""

from typing import final

import torch
from torch import Tensor, nn

LEVELS = 1 << 16
"""of a draw"""


@final
class Dropout(nn.Dropout):
    """torch's layer, with its own draws on a CPU outside of graphs; they come from torch's generator as well."""

    def forward(self, input: Tensor) -> Tensor:
        """(…) → (…); the input itself where nothing is dropped."""
        if not self.training or self.p == 0 or input.device.type != "cpu" or torch.compiler.is_compiling():
            return super().forward(input)
        n = input.numel()
        draws = torch.empty(-(-n // 4), dtype=torch.int64).random_(-(2**63), None).view(torch.int16)[:n]
        kept = draws >= round(self.p * LEVELS) - LEVELS // 2
        return input * kept.view(input.shape).to(input.dtype).mul_(1 / (1 - self.p))

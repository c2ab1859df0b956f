"""A linear layer, y = x Wᵀ + b, by the faster one of torch's matrix libraries: see `seqloom.ops.fused.projection`."""

from typing import final

from torch import Tensor, nn

from seqloom.ops.fused.projection import project


@final
class Linear(nn.Linear):
    """torch's linear layer, by `project`."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features)."""
        return project(input, self.weight, self.bias)

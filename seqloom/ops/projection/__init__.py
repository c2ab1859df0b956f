"""A projection, y = x Wᵀ + b, by whichever of torch's two libraries multiplies matrices faster here.

On a CPU torch multiplies float32 matrices with Intel's MKL, which on AMD's processors reaches about half of what the
processor can do; oneDNN, which torch carries for its compiled graphs, reaches nearly all of it (docs/log.md). The
numbers are float32 either way.

Source: nothing but the product; which library is ours to choose.
"""

from collections.abc import Callable
from typing import final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import linear

from seqloom.ops import backends
from seqloom.ops.projection import onednn, reference

LEAST = 1 << 23
"""products from which on oneDNN's longer way to its kernel pays"""

RUN: dict[str, Callable[[Tensor, Tensor, Tensor | None], Tensor]] = {
    "reference": reference.project,
    "torch": linear,
    "onednn": onednn.project,
}

backends.declare("projection", tuple(RUN), onednn.lacking)


def project(x: Float[Tensor, "*B I"], weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None) -> Tensor:
    """(…, I) → (…, O); differentiable twice.

    Small ones, captured graphs, autocast and other number types are torch's own, and not remembered as a choice.
    """
    large, forced = x.numel() * len(weight) >= LEAST, backends.forced("projection")
    if not (large or forced) or torch.compiler.is_compiling() or not onednn.able(x, weight, bias):
        return linear(x, weight, bias)
    chosen = backends.choose("projection", "onednn" if onednn.faster() else "torch", RUN)
    return RUN[chosen](x, weight, bias)


@final
class Linear(nn.Linear):
    """torch's linear layer, by `project`."""

    def forward(self, input: Tensor) -> Tensor:
        """(…, in_features) → (…, out_features)."""
        return project(input, self.weight, self.bias)

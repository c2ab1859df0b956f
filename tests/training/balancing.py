"""A mixer with an auxiliary loss and a statistic, as a mixture of experts has them, for the tests of extras.

p_t = softmax(x_t W_g + b)      (E,)        y_t = (x_t W) Σ_e p_te²
balance = mean over kept t of Σ_e p_te²     load = Σ over kept t of p_t,     b ← b - 0.1 load / Σ load
"""

from collections.abc import Mapping
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from seqloom.core.extras import Extras
from seqloom.core.layer import Layer
from seqloom.core.mixer import Traits
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.state import Entries, State
from seqloom.mixers.base import PackedMixer

TRAITS = Traits(causal="always", streams=True, state="none")


@final
class Balanced(PackedMixer):
    """Each token for itself."""

    traits = TRAITS
    bias: Tensor

    def __init__(self, dim: int, weight: float) -> None:
        super().__init__()
        self.dim, self.weight = dim, weight
        self.w, self.w_g = nn.Linear(dim, dim, bias=False), nn.Linear(dim, 3)
        self.register_buffer("bias", torch.zeros(3))

    def shares(self, x: Tensor) -> Tensor:
        return torch.softmax(self.w_g(x) + self.bias, -1)

    def mix(self, x: Tensor, state: State | None = None, lengths: Tensor | None = None) -> tuple[Tensor, Entries]:
        y = self.w(x) * self.shares(x).square().sum(-1, keepdim=True)
        return y, {}

    def forward_with_extras(self, x: Tensor, keep: Tensor | None = None) -> tuple[Tensor, Extras]:
        return self(x, keep), self.extras(x, keep)

    def extend_with_extras(self, x: Tensor, state: State, keep: Tensor | None = None) -> tuple[Tensor, State, Extras]:
        return *self.extend(x, state, keep), self.extras(x, keep)

    def extras(self, x: Tensor, keep: Tensor | None) -> Extras:
        shares = self.shares(x if keep is None else x[keep]).flatten(0, -2)
        balance = shares.square().sum(-1).mean()
        return Extras({"balance": balance}, {"load": shares.detach().sum(0)})

    @property
    def loss_weights(self) -> dict[str, float]:
        return {"balance": self.weight}

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        load = statistics["load"]
        self.bias.sub_(0.1 * load / load.sum())


class BalancedConfig(MixerConfig):
    """A mixer with an auxiliary loss and a statistic."""

    kind: Literal["balanced"] = "balanced"
    weight: float = 0.5
    traits: ClassVar = TRAITS

    def make(self, layer: Layer) -> Balanced:
        return Balanced(layer.dim, self.weight)

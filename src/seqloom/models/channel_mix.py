"""RWKV-4's channel mixing, which replaces the feed-forward network of other Transformers.

    r = (x_{t-1} + μ_r (x_t - x_{t-1})) W_r,  k = (x_{t-1} + μ_k (x_t - x_{t-1})) W_k              x_0 = 0; no biases
    y = σ(r) ∘ (max(k, 0)² W_v)

Each token sees the one before it, so it has a state and the methods of a mixer. In RWKV it stands in
x = x + TimeMix(norm x),  x = x + ChannelMix(norm x), with one norm more after the embedding.

Before training, with l = `layer`, both μ of channel c of D are (c/D)^(1 - l/depth).

Source: Peng et al., RWKV, arXiv:2305.13048, "Token Shift" and "Output Gating"; initialization from the authors' code of
RWKV-4. Their W_r and W_v start at 0, ours as the model's others do. Seed 004 leaves the token shift out (Eq. 22), and
its residuals (Eq. 23) are wrong.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, final

import torch
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, gate
from seqloom.core.mixer import Traits
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.layers.linear import Linear
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.ops.past import token_shift


class ShiftedFFN(FFNSublayer, ABC):
    """A feed-forward net over `dim` channels, `width` wide, that also sees the token before. State: the last token."""

    traits = Traits(causal="always", streams=True, state="constant")

    def __init__(self, dim: int, width: int, layer: int, depth: int) -> None:
        super().__init__()
        if not 0 <= layer < depth:
            raise ValueError(f"there is no layer {layer} in {depth}: layers count from 0")
        self.dim = dim
        self.width = width
        self.layer = layer
        self.depth = depth

    @property
    @override
    def state_spec(self) -> StateSpec:
        return {"last": StateEntry((self.dim,))}

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        earlier, last = token_shift.shift_tokens(x, state, lengths)
        return self.mix_channels(x, earlier), last

    @abstractmethod
    def mix_channels(self, x: Stream, earlier: Stream) -> Stream:
        """y (B, T, D), given x and the token before each."""


@final
class ChannelMix(ShiftedFFN):
    """Channel mixing over `dim` channels, `width` wide inside (RWKV: 4 dim). State: the last token (B, D)."""

    def __init__(self, dim: int, width: int, layer: int = 0, depth: int = 1) -> None:
        super().__init__(dim, width, layer, depth)
        self.w_r, self.w_k = Linear(dim, dim, bias=False), Linear(dim, width, bias=False)
        self.w_v = Linear(width, dim, bias=False)
        self.mu_r, self.mu_k = (nn.Parameter(torch.empty(dim)) for _ in range(2))
        self.init()

    @override
    @torch.no_grad()
    def init(self) -> None:
        share = (torch.arange(self.dim, device=self.device) / self.dim) ** (1 - self.layer / self.depth)
        self.mu_r.copy_(share)
        self.mu_k.copy_(share)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        matrices = [project.weight for project in (self.w_r, self.w_k, self.w_v)]
        # Without weight decay: 0 is not neutral for μ.
        return [{"params": matrices}, {"params": [self.mu_r, self.mu_k], "weight_decay": 0.0}]

    @property
    @override
    def output_layer(self) -> Linear:
        return self.w_v  # a gate follows

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        n = span.rows * self.dim
        squares = span.rows * self.width
        shift = Cost(mul=2 * n, add=3 * n, path=("addition", "multiplication", "addition"))
        squared = Cost(mul=squares, other=squares, path=("multiplication",))
        return shift, self.w_k, squared, self.w_v, gate(n)

    @override
    def mix_channels(self, x: Stream, earlier: Stream) -> Stream:
        difference = x - earlier
        r = self.w_r(torch.addcmul(earlier, difference, self.mu_r))
        k = self.w_k(torch.addcmul(earlier, difference, self.mu_k))
        positive = torch.relu(k)
        y: Stream = torch.sigmoid(r) * self.w_v(positive * positive)
        return y

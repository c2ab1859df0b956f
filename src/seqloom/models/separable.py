"""Separable convolutions in place of the feed-forward network: each channel over time, then all channels of a token.

    h_t = relu((Σ_{k<3} a_k ∘ x_{t-k}) W_1 + b_1)
    y_t = (Σ_{k<5} c_k ∘ h_{t-k}) W_2 + b_2                x_t = h_t = 0 before the first token; `width` channels in h

In a model that reads in both directions k goes from -1 to 1 and from -2 to 2. Before training a and c are uniform,
±√(1/3) and ±√(1/5).

Source: Dehghani et al., Universal Transformers, arXiv:1807.03819, section 2.1, after Chollet, Xception,
arXiv:1610.02357; kernels of 3 and 5 from the authors' code. Nothing differs.
"""

from collections.abc import Iterable
from typing import Any, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.mixer import Traits
from seqloom.core.shapes import Keep, Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.layers.linear import Linear
from seqloom.mixers.base import CachingMixer
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.ops.fused.activations import PRICES
from seqloom.ops.lag_sum import centered, taps, window
from seqloom.ops.past.pack import pack, unpack

KERNELS = 3, 5
"""tokens that each convolution reads"""


@final
class Separable(FFNSublayer, CachingMixer):
    """Two separable convolutions over `dim` channels, `width` wide between; `causal` or over both sides.

    State: the last inputs of both, `past` (B, 2, D) and `past_hidden` (B, 4, F) for a width of F.
    """

    def __init__(self, dim: int, width: int, causal: bool = True) -> None:
        super().__init__()
        self.dim = dim
        self.width = width
        self.causal = causal
        self.traits = Traits("always", True, "window") if causal else Traits("never", False, "none")
        self.a, self.c = (nn.Parameter(torch.empty(k, n)) for k, n in zip(KERNELS, (dim, width), strict=True))
        self.w_1, self.w_2 = Linear(dim, width), Linear(width, dim)
        self.init()

    @override
    @torch.no_grad()
    def init(self) -> None:
        for kernel in (self.a, self.c):
            kernel.uniform_(-(len(kernel) ** -0.5), len(kernel) ** -0.5)

    @override
    def param_groups(self) -> list[dict[str, Any]]:
        linear = [*self.w_1.parameters(), *self.w_2.parameters()]
        taps = [self.a, self.c]  # without weight decay, as the taps of mixers
        return [{"params": linear}, {"params": taps, "weight_decay": 0.0}]

    @property
    @override
    def state_spec(self) -> StateSpec:
        if not self.causal:
            return {}
        return {"past": StateEntry((KERNELS[0] - 1, self.dim)), "past_hidden": StateEntry((KERNELS[1] - 1, self.width))}

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        if self.causal or keep is None or 0 in x.shape:
            return super().forward(x, keep)
        rows, packing = pack(self.check_input(x, keep, 3), keep)
        return unpack(self._around(rows, packing.real), packing)

    @override
    def mix(
        self, x: Stream, state: State | None = None, lengths: Lengths | None = None, *, reuse: bool = False
    ) -> tuple[Stream, Entries]:
        if not self.causal:
            return self._around(x, None), {}
        z, past = window.carry(x, self.a, state, "past", lengths, reuse)
        h = torch.relu(self.w_1(z))
        z, past_hidden = window.carry(h, self.c, state, "past_hidden", lengths, reuse)
        return self.w_2(z), past | past_hidden

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        relu = PRICES["relu"](span.rows * self.width)
        first, second = (
            taps.price(span, n, k) if self.causal else centered.price(span, n, k // 2 + 1)
            for k, n in zip(KERNELS, (self.dim, self.width), strict=True)
        )
        return first, self.w_1, relu, second, self.w_2

    def _around(self, x: Tensor, real: Tensor | None) -> Tensor:
        """Both sums over both sides; `real` (B, T) is False at padding, where x is 0 and h is made 0."""
        h = torch.relu(self.w_1(centered.sum_centered(x, self.a)))
        if real is not None:
            h = torch.where(real[:, :, None], h, 0.0)
        y: Tensor = self.w_2(centered.sum_centered(h, self.c))
        return y

"""AFT over whole rows: what its bidirectional forms share.

y_t = σ(q_t) ∘ (Σ_j e^{k_j + w_{tj}} ∘ v_j) / (Σ_j e^{k_j + w_{tj}}),   out = y W_out
"""

from abc import ABC, abstractmethod

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.view import View
from seqloom.layers.linear import Linear
from seqloom.mixers.bidirectional import BidirectionalMixer
from seqloom.ops.biased_average.whole import whole


class WholeAverage(BidirectionalMixer, ABC):
    """A bidirectional AFT; its biases w are those of `table`."""

    w_q: Linear
    w_k: Linear
    w_v: Linear
    w_out: Linear

    @abstractmethod
    def table(self, x: Stream) -> Tensor:
        """The biases of every query and key of rows x (B, T, D): (T, T), or (K, T, T) with one table for each key."""

    @override
    def mix(self, x: Stream, lengths: Lengths | None = None) -> Stream:
        k = self.w_k(x)
        v = self.w_v(x)
        y = torch.sigmoid(self.w_q(x)) * whole(k, v, self.table(x), lengths)
        out: Tensor = self.w_out(y)
        return out

    @override
    def plots(self, x: Stream) -> list[View]:
        meaning = "what is added to the key of a token before the exponential, for each query"
        return [View("biases", meaning, ("query", "key"), self.table(x))]

"""The position-wise feed-forward network, plain or gated.

    ffn(x) = φ(x W_1 + b_1) W_2 + b_2                            φ: the activation, by default max(·, 0)
    ffn(x) = (φ(x W_gate + b_gate) ∘ (x W_1 + b_1)) W_2 + b_2    gated: SwiGLU with silu, GEGLU with gelu

Source: Vaswani et al., arXiv:1706.03762, Eq. 2; the Extractor paper's Eq. 19; gated: Shazeer, arXiv:2002.05202, Eq. 6,
where V is our W_1 and there are no biases. Here `bias` says whether there are. With `chunk` this many tokens are
computed at a time, and again in the backward, so that memory holds the hidden layer of one chunk alone: Kitaev et al.,
Reformer, arXiv:2001.04451, section 3. The numbers are the same.
"""

from collections.abc import Iterable
from typing import final

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.mixer import Traits
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.layers.linear import Linear
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.ops.fused.activations import FUNCTIONS, PRICES


@final
class FFN(FFNSublayer):
    """Linear layers with an activation between, `width` wide inside; each token for itself. No state."""

    traits = Traits(causal="always", streams=True, state="none")

    def __init__(
        self,
        dim: int,
        width: int,
        activation: str = "relu",
        gated: bool = False,
        bias: bool = True,
        chunk: int | None = None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.width = width
        self.activation = activation
        self.chunk = chunk
        self.w_1, self.w_2 = Linear(dim, width, bias=bias), Linear(width, dim, bias=bias)
        self.w_gate = Linear(dim, width, bias=bias) if gated else None

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        if self.chunk is None or x.shape[1] <= self.chunk:
            return self._tokens(x), {}
        learns = torch.is_grad_enabled()
        pieces = x.split(self.chunk, 1)
        parts = [
            checkpoint(self._tokens, piece, use_reentrant=False) if learns else self._tokens(piece) for piece in pieces
        ]
        return torch.cat(parts, 1), {}

    def _tokens(self, x: Stream) -> Tensor:
        """The equation, whose hidden layer (B, T, width) is held as a whole."""
        phi = FUNCTIONS[self.activation]
        hidden = phi(self.w_1(x)) if self.w_gate is None else phi(self.w_gate(x)) * self.w_1(x)
        y: Tensor = self.w_2(hidden)
        return y

    @override
    def price_terms(self, span: Span) -> Iterable[Cost | nn.Module]:
        numbers = span.rows * self.width
        activation = PRICES[self.activation](numbers)
        if self.w_gate is None:
            return self.w_1, activation, self.w_2
        return self.w_gate, activation, Cost(mul=numbers, path=("multiplication",)), self.w_2

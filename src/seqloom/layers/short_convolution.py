"""The module of the short depthwise convolution before a mixer's sum over time, then silu.

    y_t = silu(b + Σ_{k<W} taps_k ∘ x_{t-k})            x_t = 0 before the first token; taps and b uniform in ±W^(-1/2)

Griffin has no silu.

Source: Gu & Dao, Mamba, arXiv:2312.00752, section 3.4, after Fu et al., H3, arXiv:2212.14052; initial weights as in
torch's Conv1d. Nothing differs.
"""

from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span
from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State, length_of
from seqloom.core.state_spec import StateEntry
from seqloom.ops.fused.short_convolution import convolve, window_after
from seqloom.ops.fused.short_convolution.reference import price
from seqloom.ops.fused.short_convolution.token import convolve_token


def convolve_after(
    x: Stream,
    weight: Tensor,
    bias: Tensor | None,
    state: State | None,
    lengths: Lengths | None = None,
    silu: bool = True,
) -> tuple[Stream, Entries]:
    """The convolution of x (B, T, D) by taps `weight` (W, D), and the window after it.

    Without a `state`, whose `window` (B, W-1, D) has the inputs before x, no window is computed.
    """
    if state is None:
        return convolve(x, weight, bias, silu=silu), {}
    window = state["window"]
    if x.shape[1] == 1 and lengths is None:
        y, new_window = convolve_token(x[:, 0], weight, bias, window, length_of(state), silu)
        return y[:, None], {"window": new_window}
    return convolve(x, weight, bias, window, silu), {"window": window_after(x, window, lengths)}


@final
class ShortConvolution(nn.Module):
    """A convolution over `dim` channels by `kernel` taps each. Its last inputs are the state's `window` (B, W-1, D)."""

    def __init__(self, dim: int, kernel: int, bias: bool = False, silu: bool = True) -> None:
        super().__init__()
        self.dim, self.silu = dim, silu
        self.weight = nn.Parameter(torch.empty(kernel, dim))
        self.bias = nn.Parameter(torch.empty(dim)) if bias else None
        self.init()

    def init(self) -> None:
        """Draws taps and biases."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -(len(self.weight) ** -0.5), len(self.weight) ** -0.5)

    @property
    def entry(self) -> StateEntry:
        """The declaration of `window` for a mixer's memory."""
        return StateEntry((len(self.weight) - 1, self.dim))

    def forward(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        """The convolution of x (B, T, D), and the window after it; without a `state` none is computed."""
        return convolve_after(x, self.weight, self.bias, state, lengths, self.silu)

    def price(self, span: Span) -> Cost:
        """The operations and the critical path for the tokens of `span` in one row."""
        return price(span, self.dim, len(self.weight), self.bias is not None, self.silu)

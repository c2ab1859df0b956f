"""Scores between blocks of tokens, by which each block attends to others: what the forms of `sinkhorn` share.

    z_i = (W_s p_i + b_s + ε) / τ        p_i the mean key of block i; if causal, of k_0 … k_{ib}

The equation of the whole mixer is in `attention.sinkhorn`.
"""

from abc import ABC

import torch
from torch import Tensor, nn
from torch.nn.functional import pad
from typing_extensions import override

from seqloom.core.cost import Cost, Span, linear
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.rest import in_training
from seqloom.core.row_draws import RowDraws
from seqloom.core.shapes import Stream
from seqloom.layers.linear import Linear


class Sorter(RowDraws, Mixer, ABC):
    """The projections of the heads, and the scores of blocks."""

    def __init__(self, layer: Layer, heads: int, block: int, temperature: float, noise: bool) -> None:
        super().__init__()
        D, H = layer.dim, heads
        if D % H:
            raise ValueError(f"dim {D} is not divisible by heads {H}: choose heads that divide dim")
        assert layer.context is not None
        self.dim, self.heads, self.K, self.context = D, H, D // H, layer.context
        self.block, self.temperature, self.noise = block, temperature, noise
        self.w_q, self.w_k, self.w_v, self.w_out = (Linear(D, D, bias=False) for _ in range(4))
        self.w_sort = Linear(self.K, -(-self.context // self.block))

    def project(self, x: Stream) -> tuple[Tensor, Tensor, Tensor]:
        """q, k and v (B, H, T, K)."""
        q, k, v = (w(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w in (self.w_q, self.w_k, self.w_v))
        return q, k, v

    def out(self, y: Tensor) -> Stream:
        """The output (B, T, D) of the mixer, from the outputs (B, H, T, K) of its heads."""
        out: Tensor = self.w_out(y.transpose(1, 2).flatten(2))
        return out

    def scores(self, pooled: Tensor) -> Tensor:
        """z (B, H, n, N) of mean keys (B, H, n, K), over the N blocks of the context."""
        z: Tensor = self.w_sort(pooled)
        if self.noise and in_training(self):
            z = z - (-self.uniform(z).clamp(min=1e-20).log()).log().to(z.dtype)
        return z / self.temperature

    def past_scores(self, k: Tensor) -> Tensor:
        """z (B, H, N, N) of keys (B, H, T, K), from the mean up to each block's first token; 0 for block 0."""
        b, N = self.block, -(-k.shape[2] // self.block)
        # the mean is over as many tokens as the sum: b + 1 for the second block, 2b + 1 for the third
        counts = torch.arange(1, k.shape[2] + 1, device=k.device)[b::b, None]
        pooled = k.cumsum(2)[:, :, b::b] / counts
        return pad(self.scores(pooled), (0, 0, 1, 0))[..., :N]

    @property
    @override
    def parts(self) -> list[nn.Module]:
        return [part for part in super().parts if part is not self.w_sort]  # it reads blocks, not tokens

    def pooling(self, span: Span) -> tuple[Cost, ...]:
        """The prices of causal scores: the sums of keys, their means, and the scores of the means."""
        rows, sums = self.heads * starts(span, self.block), span.rows - span.first
        means = Cost(add=sums * self.dim, div=rows * self.K, path=("cumulation", "division"))
        return means, *self.score_prices(rows)

    def score_prices(self, rows: int) -> tuple[Cost, ...]:
        """The prices of the scores of this many mean keys: the linear layer, and the division by τ."""
        N = self.w_sort.out_features
        return linear(rows, self.K, N, bias=True), Cost(div=rows * N, path=("division",))


def before(z: Tensor) -> Tensor:
    """The mask (1, 1, N, N) of scores z (B, H, N, N): True at [i, j] if block j is before block i."""
    return torch.ones_like(z[:1, :1], dtype=torch.bool).tril(-1)


def starts(span: Span, block: int) -> int:
    """The number of blocks, without the first one, that begin in a span."""
    if span.per == "sequence":
        return max(span.T - 1, 0) // block
    return int(span.T > 1 and (span.T - 1) % block == 0)


def past_blocks(span: Span, block: int) -> int:
    """The number of pairs of a block that begins in a span and a block before it."""
    last = max(span.T - 1, 0) // block
    return last * (last + 1) // 2 if span.per == "sequence" else last * starts(span, block)

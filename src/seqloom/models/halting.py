"""Adaptive computation time: each position decides after how many steps of a repeated block it has its output.

    p_n = σ(s_n · w + b)                                   s_n: the position's stream after step n, from 1 to at most T
    N = min {n: p_1 + … + p_n ≥ 1 - ε}, or T               R = 1 - p_1 - … - p_{N-1}
    y = Σ_{n<N} p_n s_n + R s_N,    ponder = N + R         s_n = s_N for n > N: what other positions read of it

Before training w is as other matrices and b is 1. The mean of `ponder` over all tokens is a loss; N has no gradient.

Source: Graves, Adaptive Computation Time, arXiv:1603.08983, section 2, for each position as in Dehghani et al.,
Universal Transformers, arXiv:1807.03819, section 2.2. The latter's code takes p_n from the stream before step n, mixes
y_n = w s_n + (1 - w) y_{n-1} with w = p_n or R in place of the sum, and continues with s_n of halted positions.
"""

from dataclasses import replace
from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.cost import Cost, Span, linear, sigmoid
from seqloom.core.extras import Extras
from seqloom.core.shapes import Keep
from seqloom.layers.linear import Linear


@final
class Halting(nn.Module):
    """The weights w (D) and b of p, for at most `steps` steps; a position halts at a sum of 1 - `epsilon`."""

    def __init__(self, dim: int, steps: int, epsilon: float) -> None:
        super().__init__()
        self.dim = dim
        self.steps = steps
        self.threshold = 1 - epsilon
        self.p = Linear(dim, 1)

    def init(self) -> None:
        """Sets b to 1, so that training begins with two steps per position."""
        nn.init.ones_(self.p.bias)

    def price(self, span: Span) -> Cost:
        """The price of all steps of these tokens: they are computed for halted positions too."""
        rows = span.rows
        D = self.dim
        sums = Cost(add=5 * rows, path=("addition", "addition"))  # 1 - Σp, Σp + p twice, sums of R and of N
        mean = Cost(mul=rows * D, add=rows * D, path=("multiplication", "addition"))
        choices = Cost(other=rows * (D + 6))
        step = linear(rows, D, 1, bias=True) + sigmoid(rows) + sums + mean + choices
        return replace(step.times(self.steps), params=step.params)


@final
class Pondering:
    """One pass: `take` is given the stream before and after each step, then `mean` is the output y (…, D)."""

    def __init__(self, halting: Halting, keep: Keep | None) -> None:
        self._halting = halting
        self._keep = keep
        self._step = 0

    def take(self, x: Tensor, y: Tensor) -> Tensor:
        """The stream (…, D) that the next step reads: y, or x where a position has halted."""
        halting = self._halting
        logit = halting.p(y)[..., 0]
        p = torch.sigmoid(logit.to(torch.promote_types(logit.dtype, torch.float32)))
        if self._step == 0:
            self._total, self._remainder, self.steps = (torch.zeros_like(p) for _ in range(3))
            self.mean = torch.zeros_like(y)
        self._step += 1
        running = self._total < halting.threshold
        remainder = 1 - self._total
        halts = running & (self._total + p >= halting.threshold)
        if self._step == halting.steps:
            halts = running
        weight = torch.where(running, torch.where(halts, remainder, p), 0.0)
        stream = torch.where(running[..., None], y, x)
        self.mean = self.mean + (weight.to(stream.dtype))[..., None] * stream
        # exactly 1 where a position halts, whatever the rounding errors of its p
        self._total = self._total + torch.where(halts, torch.ones_like(p), weight)
        self._remainder = self._remainder + torch.where(halts, remainder, 0.0)
        self.steps = self.steps + running
        return stream

    @property
    def extras(self) -> Extras:
        """The loss `ponder`, the mean of N + R over kept tokens; the statistics `steps`, the sum of N, and `tokens`."""
        steps, ponder = self.steps, self.steps + self._remainder
        if self._keep is None:
            tokens = torch.ones_like(steps).sum()
        else:
            steps, ponder = (torch.where(self._keep, values, 0.0) for values in (steps, ponder))
            tokens = self._keep.sum().to(steps.dtype)
        statistics = {"steps": steps.sum().detach(), "tokens": tokens}
        return Extras({"ponder": ponder.sum() / tokens.clamp(min=1)}, statistics)

"""The changes of attention's scores and weights.

    z_ij = change(q_i · k_j) / √K,   z_ij ← c tanh(z_ij / c),   z_ij ← z_ij + b_h(i - j)     or times another scale
    a_ij = e^{z_ij} / (e^{s_h} + Σ_{j'} e^{z_ij'})                                           s a sink, if any

Source: the cap c Gemma Team, arXiv:2408.00118, section 2.2; the bias b T5, arXiv:1910.10683, and ALiBi,
arXiv:2108.12409; the sink s Agarwal et al., gpt-oss, arXiv:2508.10925. Nothing differs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

ScoreChange: TypeAlias = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(products (B, H, Tq, Tk), queries (B, H, Tq, K), query times, key times) → products of the same shape"""
ValueChange: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""(weights (B, H, Tq, Tk), query times, key times) → what is added to the output (B, H, Tq, V)"""


@final
@dataclass(frozen=True)
class Bias:
    """A bias by distance: values[:, n] for i - j = `first` + n, the first or last value for distances outside."""

    values: Float[Tensor, "H R"]
    first: int = 0

    def __call__(self, i: Tensor, j: Tensor) -> Tensor:
        """The biases (B, H, Tq, Tk) of queries and keys at times (B, 1, Tq, 1) and (B, 1, 1, Tk)."""
        index = (i - j - self.first).clamp(0, self.values.shape[1] - 1)
        head = torch.arange(len(self.values), device=index.device)[:, None, None]
        return self.values[head, index]


@final
@dataclass(frozen=True)
class Scores:
    """The terms of the equation above; the defaults are those of plain attention."""

    bias: Bias | None = None
    scale: float | None = None
    softcap: float | None = None
    sinks: Float[Tensor, " H"] | None = None
    change: ScoreChange | None = None
    value_change: ValueChange | None = None

    @property
    def needs_each_score(self) -> bool:
        """Whether the backend must form each score q · k itself, because a nonlinear or custom change applies to it."""
        return self.softcap is not None or self.change is not None or self.value_change is not None

    @property
    def plain(self) -> bool:
        """Whether the scores are those of plain attention, up to the scale."""
        return not self.needs_each_score and self.bias is None and self.sinks is None

    def of(self, q: Tensor, k: Tensor, i: Tensor, j: Tensor) -> Tensor:
        """The scores z (B, H, Tq, Tk) of queries (B, H, Tq, K) and keys (B, H, Tk, K) at these times."""
        z = q @ k.mT
        if self.change is not None:
            z = self.change(z, q, i, j)
        if self.scale is None:
            z = z / math.sqrt(q.shape[-1])
        elif self.scale != 1:
            z = z * self.scale
        if self.softcap is not None:
            z = self.softcap * torch.tanh(z / self.softcap)
        return z if self.bias is None else (z + self.bias(i, j)).to(z.dtype)

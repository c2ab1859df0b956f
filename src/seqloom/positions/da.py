"""DA-Transformer: scores are made positive, and multiplied by a learned function of the distance.

    z_ij = ReLU(q_i · k_j) f_h(|i - j|) / √K,   f_h(R) = (1 + e^β) / (1 + e^{β - αR})       per head; α, β learned

f(0) = 1; f → 1 + e^β where αR → ∞, and f → 0 where αR → -∞. So the sign of α decides whether a head prefers far or near
keys, and β by how much and how steeply.

Source: Wu et al., arXiv:2010.06925, Eq. 3-5. The paper has an encoder; the causal form and the initialization α = β =
0, where f = 1, are ours. The directed acyclic Transformer, also abbreviated so, is another model.
"""

from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, Step
from seqloom.core.position import PositionConfig, Relation, RelativePosition, register


@final
class DistanceAware(RelativePosition):
    """α and β of `heads` = H heads."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.alpha, self.beta = (nn.Parameter(torch.zeros(heads)) for _ in range(2))

    def weight(self, distance: Tensor) -> Tensor:
        """The factors f_h (…, H, Tq, Tk) of distances |i - j| (…, 1, Tq, Tk)."""
        alpha, beta = (parameter[:, None, None] for parameter in (self.alpha, self.beta))
        return (1 + torch.exp(beta)) / (1 + torch.exp(beta - alpha * distance.to(alpha.dtype)))

    @override
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        def change(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return z.relu() * self.weight((i - j).abs()).to(z.dtype)

        return Relation(score_change=change)

    @override
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """A ReLU is counted in `other`; 1 + e^β is computed for each query."""
        scores, numerators = self.heads * terms, self.heads * span.rows
        factor_path: tuple[Step, ...] = ("multiplication", "addition", "exponentiation", "addition", "division")
        path: tuple[Step, ...] = (*factor_path, "multiplication")
        add, exp = 2 * scores + numerators, scores + numerators
        return Cost(mul=2 * scores, add=add, div=scores, exp=exp, other=scores, path=path)


@register
@final
class DistanceAwareConfig(PositionConfig):
    """Positive scores, multiplied by a learned function of the distance (DA-Transformer)."""

    kind: Literal["da"] = "da"
    place: ClassVar = "scores"

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> DistanceAware:
        """For any width."""
        return DistanceAware(heads)

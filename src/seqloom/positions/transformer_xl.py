"""Transformer-XL's relative positions: scores have a second term, of the query and the distance to the key.

    z_ij = ((q_i + u) · k_j + (q_i + v) · W_R r_{i-j}) / √K       per head; u, v and W_R learned
    r_d = [sin(d b^{-2c/D})_c, cos(d b^{-2c/D})_c],   b = 10000    D channels

(q_i + v) · W_R r_d is formed for every distance d at once, and shifted so that column j of row i is that of i - j. For
a single query (q_i + v) W_R is computed first: one product with W_R, as many operations as for one r_d, instead of one
for each distance.

Source: Dai et al., arXiv:1901.02860, section 3.3. The initialization u = v = 0 is ours. Seed 002 omits transposes.
"""

from typing import ClassVar, Literal, final

import torch
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span, linear
from seqloom.core.position import PositionConfig, Relation, RelativePosition, register
from seqloom.positions.sinusoidal import waves


@final
class TransformerXL(RelativePosition):
    """For `heads` = H heads of `width` = K channels."""

    def __init__(self, width: int, heads: int, base: float) -> None:
        super().__init__()
        self.width, self.heads, self.base = width, heads, base
        self.w_r = nn.Linear(width * heads, width * heads, bias=False)
        self.u, self.v = (nn.Parameter(torch.zeros(heads, width)) for _ in range(2))

    @override
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        distance = torch.arange(-ahead, behind + 1, device=self.u.device)
        r = torch.cat(waves(distance, self.width * self.heads, self.base), -1).to(self.u.dtype)  # (R, D)
        w_r = self.w_r.weight.unflatten(0, (self.heads, self.width))  # (H, K, D)
        keys = None if alone else self.w_r(r).unflatten(1, (self.heads, self.width)).permute(1, 2, 0)  # (H, K, R)

        def change(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
            column = (i - j + ahead).clamp(0, len(r) - 1)  # the pattern hides pairs at larger distances
            queries = q + (self.v - self.u)[:, None].to(q.dtype)  # q + v: `Relation.query` has added u to q
            if keys is None:
                scores = queries @ w_r.to(q.dtype) @ r.T.to(q.dtype)  # (B, H, Tq, R)
            elif column.shape[:3].numel() == 1:  # a single query: only the distances to its keys
                return z + queries @ keys[..., column[0, 0, 0]].to(q.dtype)
            else:
                scores = queries @ keys.to(q.dtype)
            return z + scores.gather(-1, column.expand(z.shape))

        return Relation(query=self.u[:, None], score_change=change)

    @override
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        """Sines and cosines are counted in `other`; v - u is formed for each query."""
        D, half = self.width * self.heads, (self.width * self.heads + 1) // 2
        r = Cost(mul=half * (span.first + distances), exp=half * span.first, other=distances * D)
        query_sums = Cost(add=3 * span.rows * D, path=("addition",))
        score_terms = Cost(mul=terms * D, add=terms * D, path=("multiplication", "cumulation", "addition"))
        return (r + linear(distances, D, D)).parallel() + query_sums + score_terms


@register
@final
class TransformerXLConfig(PositionConfig):
    """Scores have a second term, of the query and the distance to the key (Transformer-XL)."""

    kind: Literal["transformer_xl"] = "transformer_xl"
    place: ClassVar = "scores"
    base: float = Field(10000.0, gt=1, description="approximate ratio of the longest wavelength to the shortest")

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> TransformerXL:
        """It is the same for every context."""
        return TransformerXL(width, heads, self.base)

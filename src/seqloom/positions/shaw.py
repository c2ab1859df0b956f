"""Shaw's relative positions: keys and values have a learned vector added for their distance from the query.

    z_ij = q_i · (k_j + a^K_{clip(j-i)}) / √K,   y_i = Σ_j a_ij (v_j + a^V_{clip(j-i)})       clip to ±L

a^K and a^V are two tables of 2L + 1 rows of K channels, which all heads of a layer share. No key or value is formed for
each query: q_i is multiplied with all rows of a^K at once, and weights a_ij are summed by distance before the product
with a^V.

Source: Shaw et al., arXiv:1803.02155, Eq. 3-5; L = 16 in its experiments. Seed 002 gives the tables one number per row.
"""

from typing import ClassVar, Literal, final

from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.core.position import PositionConfig, Relation, RelativePosition, register


@final
class Shaw(RelativePosition):
    """Two tables (2L + 1, K), for `heads` heads of `width` = K channels and `reach` = L."""

    def __init__(self, width: int, heads: int, reach: int) -> None:
        super().__init__()
        self.width, self.heads, self.reach = width, heads, reach
        self.of_keys, self.of_values = (nn.Embedding(2 * reach + 1, width) for _ in range(2))

    @override
    def forward(self, behind: int, ahead: int, alone: bool) -> Relation:
        def row(i: Tensor, j: Tensor) -> Tensor:
            """The row of the tables for a query at i and a key at j."""
            return (j - i).clamp(-self.reach, self.reach) + self.reach

        def change(z: Tensor, q: Tensor, i: Tensor, j: Tensor) -> Tensor:
            scores = q @ self.of_keys.weight.T.to(q.dtype)  # (B, H, Tq, 2L + 1)
            return z + scores.gather(-1, row(i, j).expand(z.shape))

        def value_change(a: Tensor, i: Tensor, j: Tensor) -> Tensor:
            zeros = a.new_zeros(*a.shape[:3], 2 * self.reach + 1)
            sums = zeros.scatter_add(-1, row(i, j).expand(a.shape), a)  # of the weights, by distance
            return sums @ self.of_values.weight.to(a.dtype)

        return Relation(score_change=change, value_change=value_change)

    @override
    def price(self, span: Span, terms: int, distances: int) -> Cost:
        rows, H, K, N = span.rows, self.heads, self.width, 2 * self.reach + 1
        key_cost = Cost(mul=rows * H * N * K, add=rows * H * N * (K - 1) + H * terms, path=("addition",))
        value_cost = Cost(
            mul=rows * H * N * K, add=H * terms + rows * H * (N - 1) * K + rows * H * K, path=("addition",)
        )
        return key_cost + value_cost


@register
@final
class ShawConfig(PositionConfig):
    """Learned vectors added to keys and values for their distance from the query (Shaw et al.)."""

    kind: Literal["shaw"] = "shaw"
    place: ClassVar = "keys_values"
    reach: int = Field(
        16, ge=0, description="distance, in tokens, from which all distances share one embedding, on each side"
    )

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> Shaw:
        """It is the same for every context."""
        return Shaw(width, heads, self.reach)

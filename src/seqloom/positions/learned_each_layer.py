"""Learned positions in each layer: each layer adds its own table to its input.

    x_i ← x_i + √D table^l_i,   i < L, l < depth

Source: Al-Rfou et al., arXiv:1808.04444, section 3.3. The factor √D is the Extractor paper's, as for `learned`.
"""

from typing import ClassVar, Literal, final

from typing_extensions import override

from seqloom.core.cost import Cost
from seqloom.core.position import register
from seqloom.positions.learned import LearnedTable


@register
@final
class LearnedEachLayerConfig(LearnedTable):
    """A learned vector for each position of the context, in each layer, added to its input."""

    kind: Literal["learned_each_layer"] = "learned_each_layer"
    place: ClassVar = "layers"

    @override
    def price(self, rows: int, dim: int, context: int) -> Cost:
        """A product and an addition per channel."""
        return Cost(mul=rows * dim, add=rows * dim, params=dim * context, path=("multiplication", "addition"))

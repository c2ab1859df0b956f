"""Blockwise attention: the text is cut into n blocks, and in each head a block attends to one other, by a permutation.

    y_i = Σ_j a_ij v_j W_out,   a_ij = softmax of q_i · k_j / √K over the j with ⌊j n/T⌋ = π_h(⌊i n/T⌋)

π_h is the shift by h blocks unless `permutations` lists one for each head. Bidirectional: a block looks ahead.

Source: Qiu et al. (BlockBERT), arXiv:1911.02972, section 3. Seed 002 stores blocks of n × n; they are (T/n) × K. Where
n does not divide T a block has ⌈T/n⌉ tokens and the last ones fewer; the paper pads. A query whose block attends to an
empty one has the output 0.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.config import IntLists
from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.mixers.patterned import (
    BIDIRECTIONAL,
    BidirectionalPatternAttention,
    PatternConfig,
)
from seqloom.ops.attention.patterns import Permuted


@register
class BlockwiseConfig(PatternConfig):
    """Attention between blocks, by a permutation for each head."""

    kind: Literal["blockwise"] = "blockwise"
    blocks: int = Field(2, ge=1, description="blocks that the text is cut into (the paper: 2 and 3)")
    permutations: IntLists | None = Field(
        None,
        description="for each head the block that each block attends to, counted from 0; unset: head h shifts by h",
    )
    nearest: ClassVar = "sparse"
    traits: ClassVar = BIDIRECTIONAL
    examples: ClassVar = ({"heads": 2}, {"heads": 2, "permutations": [[1, 0], [0, 1]]})
    drawings: ClassVar = ({"heads": 3, "blocks": 3, "causal": False},)

    @model_validator(mode="after")
    def _permutes(self) -> "BlockwiseConfig":
        lists = self.permutations or [list(range(self.blocks))] * self.heads
        if len(lists) != self.heads:
            raise ValueError(f"permutations cover {len(lists)} of {self.heads} heads: list one for each head")
        for permutation in lists:
            if sorted(permutation) != list(range(self.blocks)):
                raise ValueError(
                    f"{permutation} is no permutation of {self.blocks} blocks: use each of 0 to {self.blocks - 1} once"
                )
        return self

    @override
    def make(self, layer: Layer) -> BidirectionalPatternAttention:
        shifts = [[(block + head) % self.blocks for block in range(self.blocks)] for head in range(self.heads)]
        return self.bidirectional(layer, [Permuted(tuple(permutation)) for permutation in self.permutations or shifts])

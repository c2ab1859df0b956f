"""Learned absolute positions: a vector for each position of the context, added to the token's embedding.

    x_i = token_i + table_i,   i < L

Source: the Extractor paper's Eq. 5; its factor √D is applied by the decoder, to the sum with the token's vector.
"""

from abc import ABC
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost
from seqloom.core.position import EmbeddingPosition, PositionConfig, register


@final
class LearnedPositions(EmbeddingPosition):
    """A table (L, D). Raises ValueError for a position beyond the table."""

    def __init__(self, context: int, dim: int) -> None:
        super().__init__()
        self.table = nn.Embedding(context, dim)

    @override
    def forward(self, time: Int[Tensor, "B T"]) -> Float[Tensor, "B T D"]:
        """The vectors of tokens at these positions. Raises ValueError beyond the table."""
        if torch.compiler.is_compiling():
            return self.table(time)
        if type(time) is Tensor and time.is_cuda and time.numel() and int(time.max()) >= self.table.num_embeddings:
            raise self._too_long(time)  # a failed assertion on the device would end the process
        try:
            vectors: Tensor = self.table(time)
        except IndexError:
            raise self._too_long(time) from None
        return vectors

    def _too_long(self, time: Tensor) -> ValueError:
        reach = self.table.num_embeddings
        return ValueError(
            f"the text is {int(time.max()) + 1} tokens long, the learned positions reach {reach}: "
            "shorten it, generate with mode 'slide', or train with position='none'"
        )


class LearnedTable(PositionConfig, ABC):
    """A learned vector for each position of the context."""

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> LearnedPositions:
        """A table. Raises ValueError without a context."""
        if context is None:
            raise ValueError("learned positions need a context: the number of positions that they have vectors for")
        return LearnedPositions(context, width)

    @override
    def longest(self, context: int) -> int:
        """The context."""
        return context


@register
@final
class LearnedConfig(LearnedTable):
    """A learned vector for each position of the context, added to the token's."""

    kind: Literal["learned"] = "learned"
    place: ClassVar = "embedding"

    @override
    def price(self, rows: int, dim: int, context: int) -> Cost:
        """An addition per channel."""
        return Cost(add=rows * dim, params=dim * context, path=("addition",))

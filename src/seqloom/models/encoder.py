"""An encoder around any bidirectional mixers: every position is read from all others; `transformer` has the equations.

    logits = W norm(x) + b
    logits = W norm'(gelu(V norm(x) + c)) + b              with `head_layer`: BERT's, V of (D, D)

Source: Devlin et al., BERT, arXiv:1810.04805. What differs: by default the layers are the Extractor paper's (norm
before each sublayer, untied output, N(0, 0.01²)) and the head is one linear layer; the recipe bert/small has BERT's. No
segments, whose embedding of the first is a constant here.
"""

from typing import ClassVar, Literal, final

from pydantic import Field
from torch import nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, linear
from seqloom.core.model import ModelTraits
from seqloom.core.parts import init_weights
from seqloom.core.shapes import Stream
from seqloom.layers.linear import Linear
from seqloom.models.config import BidirectionalConfig
from seqloom.models.cost import norm_cost
from seqloom.models.transformer import Transformer
from seqloom.ops.fused.activations import PRICES


@final
class EncoderConfig(BidirectionalConfig):
    """The sizes of an encoder and the bidirectional mixers of its layers."""

    kind: Literal["encoder"] = "encoder"
    head_layer: bool = Field(
        False, description="whether a linear layer with GELU and a norm precedes the output (BERT)"
    )
    later: ClassVar = (*BidirectionalConfig.later, "head_layer")

    @override
    def build(self, layers: int | None = None) -> "Encoder":
        return Encoder(self, layers)


@final
class Encoder(Transformer):
    """Predicts the token of every position from the whole row."""

    config: EncoderConfig

    def __init__(self, config: EncoderConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        self.head_layer: nn.Sequential | None = None
        if config.head_layer:
            self.head_layer = nn.Sequential(Linear(config.dim, config.dim), nn.GELU(), config.new_norm(config.dim))
            if not self.token.weight.is_meta:
                init_weights(self.head_layer, config.std)

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, self.longest)

    @override
    def head_input(self, x: Stream) -> Stream:
        h = super().head_input(x)
        return h if self.head_layer is None else self.head_layer(h)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        price = super().cost(T, per, outputs)
        if self.head_layer is None:
            return price
        rows, D = T if outputs is None else outputs, self.config.dim
        layer = linear(rows, D, D, bias=True) + PRICES["gelu"](rows * D)
        return price + layer + norm_cost(rows, D, self.config.norm)

"""A layer for each token, chosen after the first one (Depth-Adaptive's multinomial classifier).

    q_t = softmax(W x_t1 + b)                                        x_t1: the stream of token t after the first layer
    loss = mean over tokens of -ln q_t(n*_t)                         n*: `seqloom.depth.oracles`

A token ends after argmax_n q_t(n).

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 4.2. What differs: the model's weights
stay as they are, where the paper trains both.
"""

from typing import Literal, final

from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.depth.classifier import Chooser, LayerPredictions, TaughtConfig
from seqloom.depth.oracles import token_oracle


@final
class MultinomialConfig(TaughtConfig):
    """A layer for each token, chosen after the first one."""

    kind: Literal["multinomial"] = "multinomial"
    width: float = Field(1.0, gt=0, description="σ of the kernel that averages over neighboring tokens")

    @override
    def build(self) -> "Multinomial":
        return Multinomial(self)


@final
class Multinomial(Chooser):
    """A linear classifier of the stream after the first layer."""

    def __init__(self, config: MultinomialConfig) -> None:
        super().__init__(config)
        self.config: MultinomialConfig = config

    @override
    def loss(self, predictions: LayerPredictions) -> Float[Tensor, ""]:
        return cross_entropy(self.logits(predictions.streams[0]).flatten(0, 1), self.target(predictions).flatten() - 1)

    @override
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        return self.choose_exit(streams[0])

    @override
    def target(self, predictions: LayerPredictions) -> Int[Tensor, "B T"]:
        return token_oracle(predictions.worth(self.config.oracle), self.config.penalty, self.config.width)

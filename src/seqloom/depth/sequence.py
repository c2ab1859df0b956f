"""One layer for all tokens of a text, chosen by its prompt (Depth-Adaptive's sequence-specific classifier).

    q = softmax(W x̄ + b)                                  x̄: the mean of the prompt's stream after the last layer
    loss = -ln q(n*)                                      n*: `seqloom.depth.oracles`, of the tokens after the prompt

All tokens end after argmax_n q(n). In training the first half of each window is the prompt.

Source: Elbayad et al., Depth-Adaptive Transformer, arXiv:1910.10073, section 4.1, where x̄ is the mean of the encoder's
output. What differs: a decoder has no encoder, so the prompt takes its place; the model's weights are not trained.
"""

from typing import Literal, final

from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.depth.classifier import Chooser, LayerPredictions, TaughtConfig
from seqloom.depth.oracles import sequence_oracle


@final
class SequenceConfig(TaughtConfig):
    """One layer for all tokens of a text, chosen by its prompt."""

    kind: Literal["sequence"] = "sequence"

    @override
    def build(self) -> "Sequence":
        return Sequence(self)


@final
class Sequence(Chooser):
    """A linear classifier of the mean of a prompt's stream."""

    def __init__(self, config: SequenceConfig) -> None:
        super().__init__(config)
        self.config: SequenceConfig = config

    @override
    def loss(self, predictions: LayerPredictions) -> Float[Tensor, ""]:
        return cross_entropy(self.logits(self._mean(predictions.streams)), self._layers(predictions) - 1)

    @override
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        return self.choose_exit(self._mean(streams))[:, None].expand(streams[0].shape[:2])

    @override
    def target(self, predictions: LayerPredictions) -> Int[Tensor, "B T"]:
        return self._layers(predictions)[:, None].expand(predictions.same.shape[:2])

    @override
    def first(self, T: int) -> int:
        return (T + 1) // 2

    def _layers(self, predictions: LayerPredictions) -> Tensor:
        """n* of each row."""
        worth = predictions.worth(self.config.oracle)
        return sequence_oracle(worth[:, self.first(worth.shape[1]) :], self.config.penalty)

    def _mean(self, streams: list[Tensor]) -> Tensor:
        """x̄ of each row."""
        last = streams[-1]
        return last[:, : self.first(last.shape[1])].mean(1)

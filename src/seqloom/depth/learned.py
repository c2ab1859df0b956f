"""CALM's learned confidence: the probability that later layers do not change the likeliest next token.

    c_l = σ(w_l · x_l + b_l)                                         x_l: the stream after layer l = 1 … L - 1
    loss = mean over tokens and l < L of BCE(c_l, 1[argmax logits(x_l) = argmax logits(x_L)])

The model's weights stay as they are. Before training w and b are 0, and c_l = 1/2.

Source: Schuster et al., CALM, arXiv:2207.07061, section 3.3 and appendix, the objective of independent layers. The
other, over the sequence of layers, which the paper finds worse, is that of `geometric`. Here each layer has weights of
its own.
"""

from typing import Literal, final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from typing_extensions import override

from seqloom.depth.classifier import ClassifierConfig, ConfidenceClassifier, LayerPredictions


@final
class LearnedConfig(ClassifierConfig):
    """Whether later layers would change the likeliest token (CALM)."""

    kind: Literal["learned"] = "learned"

    @override
    def build(self) -> "Learned":
        return Learned(self)


@final
class Learned(ConfidenceClassifier):
    """A linear classifier of each layer but the last."""

    @override
    def loss(self, predictions: LayerPredictions) -> Float[Tensor, ""]:
        logits = self.logits(predictions.streams)
        return binary_cross_entropy_with_logits(logits, predictions.same[..., :-1].to(logits.dtype))

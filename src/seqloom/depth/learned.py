"""CALM's learned confidence: how surely later layers would leave a token's likeliest successor as it is.

    c_l = σ(w_l · x_l + b_l)                                         x_l: the stream after layer l = 1 … L - 1
    loss = mean over tokens and l < L of BCE(c_l, 1[argmax logits(x_l) = argmax logits(x_L)])

The model's weights stay as they are. Before training all are 0 and c_l = 1/2.

Source: Schuster et al., CALM, arXiv:2207.07061, section 3.3 and appendix, the objective of independent layers. The one
of sequences of layers, there found worse, is that of `geometric`. Each layer has weights of its own here.
"""

from typing import Literal, final

from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits
from typing_extensions import override

from seqloom.depth.classifier import ClassifierConfig, Confident, Seen


@final
class LearnedConfig(ClassifierConfig):
    """Whether later layers would change the likeliest token (CALM)."""

    kind: Literal["learned"] = "learned"

    @override
    def build(self) -> "Learned":
        return Learned(self)


@final
class Learned(Confident):
    """A linear classifier of each layer but the last."""

    @override
    def loss(self, seen: Seen) -> Float[Tensor, ""]:
        logits = self.logits(seen.streams)
        return binary_cross_entropy_with_logits(logits, seen.same[..., :-1].to(logits.dtype))

"""Classifiers that choose after which layer a token has its output. They are trained; the model's weights are not."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Bool, Float, Int
from pydantic import Field
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.config import Config
from seqloom.core.model import Model


class ClassifierConfig(Config, ABC):
    """The settings of one kind of classifier."""

    kind: str
    depth: int = Field(ge=2, le=1000, description="layers of the model: L")
    dim: int = Field(ge=1, le=2**17, description="channels of a token")

    @abstractmethod
    def build(self) -> "Classifier":
        """The classifier before training."""


class TaughtConfig(ClassifierConfig, ABC):
    """The settings of a classifier that learns which layer an oracle would choose: `seqloom.depth.oracles`."""

    oracle: Literal["likelihood", "correctness"] = Field(
        "likelihood",
        description="what a layer's prediction is worth: ln p of the token that came, or whether it is right",
    )
    penalty: float = Field(0.1, ge=0, description="λ: cost of each layer, in nats or in correct tokens")


@final
@dataclass(frozen=True)
class LayerPredictions:
    """The streams of a model in B windows of T tokens, and how good the prediction after each of its L layers is."""

    streams: list[Float[Tensor, "B T D"]]
    """the stream after each layer"""
    same: Bool[Tensor, "B T L"]
    """whether a layer and the last layer have the same likeliest next token"""
    right: Bool[Tensor, "B T L"]
    """whether a layer's likeliest next token is the one that follows in the text"""
    likelihood: Float[Tensor, "B T L"]
    """ln p of the token that follows in the text"""

    def worth(self, oracle: Literal["likelihood", "correctness"]) -> Float[Tensor, "B T L"]:
        """The values v of `seqloom.depth.oracles`: what each layer's prediction is worth to this oracle."""
        return self.likelihood if oracle == "likelihood" else self.right.to(self.likelihood.dtype)


class Classifier(nn.Module, ABC):
    """Chooses layers from the streams of a model, by weights of its own."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def loss(self, predictions: LayerPredictions) -> Float[Tensor, ""]:
        """The training loss, a mean over these windows."""

    @abstractmethod
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        """The layer, from 1 to L, after which each token has its output, from the streams after all layers."""

    def target(self, predictions: LayerPredictions) -> Int[Tensor, "B T"] | None:
        """The layer that an oracle chooses for each token; None, the default, for a classifier without an oracle."""
        return None

    def first(self, T: int) -> int:
        """The first token of a window of T for which a layer is chosen; the tokens before it are the prompt."""
        return 0


class ConfidenceClassifier(Classifier, ABC):
    """A classifier with a confidence after each layer but the last; a token ends where it reaches a threshold.

    c_l = σ(w_l · x_l + b_l) with x_l the stream after layer l; before training all weights are 0.
    """

    default_threshold: ClassVar[float] = 0.5
    """the threshold of every layer, unless a call or `thresholds` has another: the more probable answer"""
    thresholds: tuple[float, ...] | None = None
    """thresholds of all layers but the last, if a search was made: `seqloom.evaluation.thresholds`"""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.depth - 1, config.dim))
        self.bias = nn.Parameter(torch.zeros(config.depth - 1))

    def threshold(self, layer: int) -> float:
        """The threshold of a layer if a call gives none."""
        return self.default_threshold if self.thresholds is None else self.thresholds[layer - 1]

    def confidence(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """c of the stream after a layer, from 1 to L - 1."""
        return torch.sigmoid(self.logit(layer, x))

    def logit(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """The logit w_l · x_l + b_l of c, for the stream after a layer."""
        return x.to(self.weight.dtype) @ self.weight[layer - 1] + self.bias[layer - 1]

    def logits(self, streams: list[Float[Tensor, "B T D"]]) -> Float[Tensor, "B T L-1"]:
        """The logits of all layers but the last."""
        return torch.stack([self.logit(layer, x) for layer, x in enumerate(streams[:-1], 1)], -1)

    @override
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        c = torch.sigmoid(self.logits(streams))
        layers = range(1, self.config.depth)
        thresholds = [self.threshold(layer) if threshold is None else threshold for layer in layers]
        sure = c >= torch.tensor(thresholds).to(c)
        ends = torch.cat([sure, torch.ones_like(sure[..., :1])], -1)  # a token ends after the last layer in any case
        return ends.int().argmax(-1) + 1


class Chooser(Classifier, ABC):
    """A classifier that chooses the layer from one vector: argmax W x + b; before training all weights are 0."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.depth, config.dim))
        self.bias = nn.Parameter(torch.zeros(config.depth))

    def choose_exit(self, x: Float[Tensor, "... D"]) -> Int[Tensor, "..."]:
        """The layer with the largest logit, from 1 to L."""
        return self.logits(x).argmax(-1) + 1

    def logits(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... L"]:
        """The logits W x + b of all layers."""
        return x.to(self.weight.dtype) @ self.weight.T + self.bias


@torch.no_grad()
def layer_predictions(model: Model, ids: Int[Tensor, "B T+1"]) -> LayerPredictions:
    """The streams and predictions of all layers over windows of ids; logits of only one layer are held at a time."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    streams, _ = model.exits(inputs)
    likeliest, likelihoods = [], []
    for layer, x in enumerate(streams, 1):
        logits = model.exit_logits(x, layer)
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        likeliest.append(logits.argmax(-1))
        likelihoods.append(log_p.gather(-1, targets[..., None])[..., 0])
    predicted = torch.stack(likeliest, -1)
    return LayerPredictions(
        streams,
        same=predicted == predicted[..., -1:],
        right=predicted == targets[..., None],
        likelihood=torch.stack(likelihoods, -1),
    )

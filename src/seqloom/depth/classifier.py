"""What says after which layer a token has its output, by weights of its own; the model's own stay as they are."""

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
    """The settings of one that learns which layer an oracle would choose: `seqloom.depth.oracles`."""

    oracle: Literal["likelihood", "correctness"] = Field(
        "likelihood",
        description="what a layer's prediction is worth: ln p of the token that came, or whether it is right",
    )
    penalty: float = Field(0.1, ge=0, description="λ: cost of each layer, in nats or in correct tokens")


@final
@dataclass(frozen=True)
class Seen:
    """What a model made of B windows of T tokens."""

    streams: list[Float[Tensor, "B T D"]]
    """after each layer"""
    same: Bool[Tensor, "B T L"]
    """whether the likeliest next token after a layer is that after the last"""
    right: Bool[Tensor, "B T L"]
    """whether it is the one that came"""
    likelihood: Float[Tensor, "B T L"]
    """ln p of the one that came"""

    def worth(self, oracle: Literal["likelihood", "correctness"]) -> Float[Tensor, "B T L"]:
        """v of `seqloom.depth.oracles`."""
        return self.likelihood if oracle == "likelihood" else self.right.to(self.likelihood.dtype)


class Classifier(nn.Module, ABC):
    """Weights over the streams of a model."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__()
        self.config = config

    @abstractmethod
    def loss(self, seen: Seen) -> Float[Tensor, ""]:
        """What training makes small: the mean over some windows."""

    @abstractmethod
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        """After which layer, from 1 to L, each token has its output, given the streams after all layers."""

    def target(self, seen: Seen) -> Int[Tensor, "B T"] | None:
        """The layer of each token that it is to choose; None, as by default, where no oracle says."""
        return None

    def first(self, T: int) -> int:
        """The first token of a window of T that it says something of; those before are its prompt."""
        return 0


class Confident(Classifier, ABC):
    """One that says after each layer but the last how sure a token is; it ends where that reaches a threshold.

    c_l = σ(w_l · x_l + b_l) with x_l the stream after layer l; before training all weights are 0.
    """

    usual: ClassVar[float | None] = None
    """the threshold, where none is given"""
    thresholds: tuple[float, ...] | None = None
    """one for each layer but the last, where a search has found them: `seqloom.evaluation.thresholds`"""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.depth - 1, config.dim))
        self.bias = nn.Parameter(torch.zeros(config.depth - 1))

    def threshold(self, layer: int) -> float:
        """That of a layer, where none is given. ValueError where there is none."""
        if self.thresholds is not None:
            return self.thresholds[layer - 1]
        if self.usual is None:
            raise ValueError(f"a classifier of kind {self.config.kind} ends where it is sure enough: give a threshold")
        return self.usual

    def confidence(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """c of the stream after a layer, from 1 to L - 1."""
        return torch.sigmoid(self.logit(layer, x))

    def logit(self, layer: int, x: Float[Tensor, "... D"]) -> Float[Tensor, "..."]:
        """c before σ."""
        return x.to(self.weight.dtype) @ self.weight[layer - 1] + self.bias[layer - 1]

    def logits(self, streams: list[Float[Tensor, "B T D"]]) -> Float[Tensor, "B T L-1"]:
        """Those of all layers but the last."""
        return torch.stack([self.logit(layer, x) for layer, x in enumerate(streams[:-1], 1)], -1)

    @override
    def depths(self, streams: list[Float[Tensor, "B T D"]], threshold: float | None = None) -> Int[Tensor, "B T"]:
        c = torch.sigmoid(self.logits(streams))
        given = [self.threshold(layer) if threshold is None else threshold for layer in range(1, self.config.depth)]
        sure = c >= torch.tensor(given).to(c)
        return torch.cat([sure, torch.ones_like(sure[..., :1])], -1).int().argmax(-1) + 1


class Chooser(Classifier, ABC):
    """One that chooses the layer at once: argmax W x + b of one vector; before training all weights are 0."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.weight = nn.Parameter(torch.zeros(config.depth, config.dim))
        self.bias = nn.Parameter(torch.zeros(config.depth))

    def chosen(self, x: Float[Tensor, "... D"]) -> Int[Tensor, "..."]:
        """The likeliest layer, from 1 to L."""
        return self.logits(x).argmax(-1) + 1

    def logits(self, x: Float[Tensor, "... D"]) -> Float[Tensor, "... L"]:
        """W x + b."""
        return x.to(self.weight.dtype) @ self.weight.T + self.bias


@torch.no_grad()
def seen(model: Model, ids: Int[Tensor, "B T+1"]) -> Seen:
    """The streams of all layers over windows, and what each of them predicts; one layer's logits at a time."""
    inputs, targets = ids[:, :-1], ids[:, 1:]
    streams, _ = model.exits(inputs)
    likeliest, likelihoods = [], []
    for layer, x in enumerate(streams, 1):
        logits = model.exit_logits(x, layer)
        log_p = torch.log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), -1)
        likeliest.append(logits.argmax(-1))
        likelihoods.append(log_p.gather(-1, targets[..., None])[..., 0])
    predicted = torch.stack(likeliest, -1)
    return Seen(
        streams, predicted == predicted[..., -1:], predicted == targets[..., None], torch.stack(likelihoods, -1)
    )

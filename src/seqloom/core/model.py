"""The contract of a model: what a run holds, trains, saves, prices and reads.

    logits = model(ids, keep)        whatever the kind; what else it can do is in its `traits`

Commands ask this contract, never a class. A verb that a kind does not have raises ValueError, which names the kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NoReturn, Self, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, SerializeAsAny
from torch import Tensor, nn

from seqloom.core.arguments import described
from seqloom.core.config import Config
from seqloom.core.cost import Cost, Per
from seqloom.core.extras import Extras
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.position import PositionConfig
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import ModelState


@final
@dataclass(frozen=True)
class ModelTraits:
    """What a model can do."""

    generates: bool
    """whether it predicts the next token from those before it, and so writes text"""
    streams: bool
    """whether it reads on from a state: `start`, `extend`, `step`"""
    longest: int | None
    """the longest text in tokens that it reads from its start; None for any"""


class Model(nn.Module, ABC):
    """A model of any kind. `forward` changes no parameter and no buffer."""

    config: "ModelConfig"
    token: nn.Embedding
    """the embedding of tokens, whose device and dtype are the model's"""
    layers: nn.ModuleList
    """the parts that repeat; in a model that was built with fewer `layers`, only the first of them"""
    tokenizer: Any = None
    """what text is read with, if there is one"""

    @property
    @abstractmethod
    def traits(self) -> ModelTraits:
        """What the model can do."""

    @property
    @abstractmethod
    def mixers(self) -> list[Mixer]:
        """The mixer of each layer, in order."""

    @property
    @abstractmethod
    def sublayers(self) -> list[Mixer]:
        """All sublayers in order: mixers, and what follows them in their layers."""

    @property
    @abstractmethod
    def loss_weights(self) -> Mapping[str, float]:
        """What training multiplies each auxiliary loss by; 1 for a name that is not there."""

    @abstractmethod
    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        """Logits at each position of ids (B, T); 0 where `keep` is False, and no effect on others."""

    @abstractmethod
    def forward_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Logits, Extras]:
        """`forward`, and the auxiliary losses and statistics of the pass."""

    @abstractmethod
    def features(self, ids: Ids, keep: Keep | None = None) -> Stream:
        """The stream (B, T, D) after the last layer: what `logits` reads."""

    @abstractmethod
    def features_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """`features`, and the auxiliary losses and statistics of the pass."""

    @abstractmethod
    def logits(self, x: Stream, keep: Keep | None = None) -> Logits:
        """The output layer over features (B, T, D), of all positions or of those that are wanted."""

    @abstractmethod
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after each optimizer step, from 1, with the sums of its passes' statistics."""

    @abstractmethod
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one row of T tokens, or of the token at position T alone, with `outputs` positions predicted.

        By default every position is predicted. The model may be on the meta device. TypeError or
        ValueError for a T, `per` or `outputs` that is not valid.
        """

    @abstractmethod
    def inner_cost(self, T: int) -> Cost:
        """The price of one row of T tokens without the embeddings and the head: of the layers and the norms."""

    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The state of `batch` rows before the first token, with room for `capacity` tokens where it grows."""
        self._lacks("read on from a state")

    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Reads a further piece; logits after each of its positions, and the state after it."""
        self._lacks("read on from a state")

    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `extend`, up to the features (B, T, D): for callers that want the logits of few positions."""
        self._lacks("read on from a state")

    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Reads one token per row; with `reuse` the given state is given up. Logits of the next token."""
        self._lacks("read on from a state")

    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room, as it is saved."""
        self._lacks("read on from a state")

    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens."""
        self._lacks("read on from a state")

    def take_windows(self, config: "ModelConfig") -> None:
        """Takes the windows of other settings, which differ from its own in nothing else; weights stay the same."""
        self._lacks("be trained with windows that change")

    @property
    def device(self) -> torch.device:
        """Where the parameters are."""
        return self.token.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the parameters."""
        return self.token.weight.dtype

    def _lacks(self, verb: str) -> NoReturn:
        raise ValueError(f"a model of kind {self.config.kind} cannot {verb}: use one of model.kind=decoder")


class ModelConfig(Config, ABC):
    """The settings of a model: its kind, its sizes, the mixers of its layers."""

    kind: Literal["decoder", "encoder"] = Field(
        "decoder", description="decoder: reads from left to right and generates; encoder: reads in both directions"
    )
    vocab: int = Field(5000, ge=1, le=2**24, description="entries of the vocabulary")
    dim: int = Field(128, ge=1, le=2**17, description="channels of a token")
    depth: int = Field(18, ge=1, le=1000, description="layers")
    context: int = Field(128, ge=1, le=2**24, description="tokens of a window, and how far a mixer looks back")
    ffn: int = Field(
        512, ge=1, le=2**20, description="width of the feed-forward network or what is in its place, if any"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the embeddings and of each sublayer's output")
    position: SerializeAsAny[PositionConfig] = Field(description="what tells where a token is")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer, or a list that the layers repeat"
    )
    std: float = Field(0.01, gt=0, description="standard deviation of the initial weights")
    channel: Literal["ffn", "channel_mix", "channel_mix7", "none"] = Field(
        "ffn",
        description="what follows each mixer: a feed-forward network, RWKV-4's or RWKV-7's channel mixing, or nothing "
        "(Mamba)",
    )
    embed_norm: bool = Field(False, description="a norm of the embeddings, as RWKV has")
    norm: Literal["layer", "rms"] = Field(
        "layer", description="the norm before each sublayer and the output: of mean and variance, or rms"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"] = Field(
        "relu", description="of the feed-forward network; gelu_tanh is GPT-2's, relu2 the square of relu"
    )
    glu: bool = Field(False, description="a gated feed-forward network: with silu SwiGLU, with gelu GEGLU")
    ffn_bias: bool = Field(True, description="biases in the feed-forward network")
    norm_place: Literal["before", "after"] = Field(
        "before",
        description="the norm of each sublayer: of its input (pre-norm), or of the sum after it (Vaswani, BERT), "
        "where the output has no norm of its own",
    )
    sublayers: Literal["serial", "parallel"] = Field(
        "serial", description="parallel: what follows the mixer reads what the mixer reads (GPT-NeoX)"
    )
    embed_scale: bool = Field(True, description="embeddings are multiplied by √dim")
    tie: bool = Field(False, description="the output layer has the weights of the embedding")
    head_bias: bool = Field(True, description="a bias in the output layer")
    scaled_init: bool = Field(
        False, description="the last linear layer of each sublayer begins divided by √(number of sublayers) (GPT-2)"
    )
    later: ClassVar = (
        *("channel", "embed_norm", "norm", "activation", "glu", "ffn_bias", "norm_place", "sublayers"),
        *("embed_scale", "tie", "head_bias", "scaled_init"),
    )
    causal: ClassVar[bool]
    """whether a position is predicted from those before it alone"""

    @property
    def pattern(self) -> tuple[MixerConfig, ...]:
        """The mixers that the layers repeat."""
        return self.mixer if isinstance(self.mixer, tuple) else (self.mixer,)

    @property
    def mixers(self) -> tuple[MixerConfig, ...]:
        """The mixer of each layer, in order."""
        return tuple(self.pattern[layer % len(self.pattern)] for layer in range(self.depth))

    def windowed(self, window: int) -> Self:
        """The settings with another window, in tokens, of every mixer that has one, for the same weights.

        Where none is set, mixers whose window is the context get one. ValueError where no mixer can have one.
        """
        changed = {mixer: mixer.with_window(window) for mixer in dict.fromkeys(self.pattern)}
        able = {mixer: other for mixer, other in changed.items() if other is not None}
        if not able:
            kinds = ", ".join(sorted({mixer.kind for mixer in self.pattern}))
            raise ValueError(f"{kinds} has no window that training.stages could change: leave window out")
        having = {mixer: other for mixer, other in able.items() if mixer.has_window} or able
        mixers = tuple(having.get(mixer, mixer) for mixer in self.pattern)
        return self.model_copy(update={"mixer": mixers if isinstance(self.mixer, tuple) else mixers[0]})

    @property
    def distinct(self) -> int:
        """The number of first layers that stand for all in price and in names and sizes of weights: see `like`."""
        return min(self.depth, len(self.pattern) * max(mixer.distinct(self.depth) for mixer in self.pattern))

    def like(self, layer: int) -> int:
        """Which of the `distinct` layers a layer has the price and the sizes of."""
        later = layer - self.distinct
        return layer if later < 0 else self.distinct - len(self.pattern) + later % len(self.pattern)

    @abstractmethod
    def build(self, layers: int | None = None) -> Model:
        """The model, freshly initialized; with `layers` only the first so many are built: all, or `distinct`.

        ValueError where a mixer does not fit the sizes or the kind.
        """


def weightless(config: ModelConfig) -> Model:
    """The model with its distinct layers alone, on the meta device: it takes no memory. ValueError as of `build`."""
    with torch.device("meta"):
        return config.build(layers=config.distinct)


def require_model(model: Any) -> None:
    """Raises TypeError unless `model` is a Model."""
    if not isinstance(model, Model):
        raise TypeError(f"model is one that seqloom.decoder or seqloom.load gives, not {described(model)}")


def require_streams(model: Any, verb: str = "read on from a state") -> None:
    """Raises TypeError unless `model` is a Model, and ValueError where it does not read on from a state."""
    require_model(model)
    if not model.traits.streams:
        idle = ", ".join(dict.fromkeys(mixer.kind for mixer in model.config.mixers if not mixer.traits.streams))
        raise ValueError(f"the model cannot {verb}: no state in {idle or f'a model of kind {model.config.kind}'}")


def require_generates(model: Any, verb: str = "generate text") -> None:
    """Raises TypeError unless `model` is a Model, and ValueError where its kind does not predict the next token."""
    require_model(model)
    if not model.traits.generates:
        raise ValueError(f"a model of kind {model.config.kind} cannot {verb}: use one of model.kind=decoder")

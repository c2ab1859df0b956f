"""The settings of a model whose layers are a mixer and a second sublayer, such as a feed-forward network.

Commands that price, size or compare layers need such a model: `layered(config)` returns its settings, or raises.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import Model
from seqloom.core.model_config import ModelConfig, weightless
from seqloom.core.position import PositionConfig

LAYERWISE = ("layers", "positions")
"""lists of modules with an entry for each layer; the second is empty unless positions act on layers"""


class LayeredConfig(ModelConfig, ABC):
    """The sizes of a model and the mixers of its layers."""

    dim: int = Field(128, ge=1, le=2**17, description="channels of a token")
    depth: int = Field(18, ge=1, le=1000, description="layers")
    ffn: int = Field(
        512, ge=1, le=2**20, description="hidden width of the feed-forward network, or of the sublayer in its place"
    )
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the embeddings and of each sublayer's output")
    position: SerializeAsAny[PositionConfig] = Field(description="the positional encoding")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer, or a list of mixers that the layers repeat in order"
    )
    std: float = Field(0.01, gt=0, description="standard deviation of the initial weights")
    channel: Literal["ffn", "channel_mix", "channel_mix7", "separable", "none"] = Field(
        "ffn",
        description="sublayer after each mixer: a feed-forward network, RWKV-4's or RWKV-7's channel mixing, two "
        "separable convolutions (Universal Transformer), or none (Mamba)",
    )
    embed_norm: bool = Field(False, description="whether the embeddings are normalized, as in RWKV")
    norm_eps: float = Field(1e-5, gt=0, description="ε of the norms, which is added to the mean square")
    norm: Literal["layer", "rms"] = Field(
        "layer", description="the norm before each sublayer and the output: LayerNorm or RMSNorm"
    )
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"] = Field(
        "relu", description="activation of the feed-forward network; gelu_tanh is GPT-2's, relu2 the square of relu"
    )
    glu: bool = Field(False, description="whether the feed-forward network is gated: SwiGLU with silu, GEGLU with gelu")
    ffn_bias: bool = Field(True, description="whether the feed-forward network has biases")
    ffn_chunk: int | None = Field(
        None,
        ge=1,
        description="tokens per chunk of the feed-forward network, recomputed in the backward pass: less memory, "
        "same results (Reformer); unset: all at once",
    )
    norm_place: Literal["before", "after"] = Field(
        "before",
        description="norm of the input of a sublayer (pre-norm) or of the sum after it (post-norm: Vaswani, BERT; "
        "without a final norm)",
    )
    sublayers: Literal["serial", "parallel", "reversible"] = Field(
        "serial",
        description="serial: one after the other; parallel: the second sublayer reads the input of the mixer "
        "(GPT-NeoX); reversible: two residual streams, from which the backward pass recomputes the inputs of the "
        "layers instead of storing them (Reformer)",
    )
    residual: Literal["add", "gru", "input", "output", "highway", "sigmoid_tanh"] = Field(
        "add",
        description="how the output of a sublayer joins the residual stream: a sum, or one of GTrXL's gates, "
        "initialized near the identity",
    )
    embed_scale: bool = Field(True, description="whether embeddings are multiplied by √dim")
    tie: bool = Field(False, description="whether the output layer shares the weights of the embedding")
    head_bias: bool = Field(True, description="whether the output layer has a bias")
    scaled_init: bool = Field(
        False,
        description="whether the initial weights of each sublayer's last linear layer are divided by √(number of "
        "sublayers) (GPT-2)",
    )
    one_block: ClassVar[bool] = False
    """whether all layers are one module, with the same weights"""
    later: ClassVar[tuple[str, ...]] = (
        *("channel", "embed_norm", "norm", "activation", "glu", "ffn_bias", "ffn_chunk", "norm_place", "sublayers"),
        *("residual", "embed_scale", "tie", "head_bias", "scaled_init", "norm_eps"),
    )

    @property
    def outputs(self) -> int:
        """The number of entries of the output layer, by default the size of the vocabulary."""
        return self.vocab

    @property
    def reach(self) -> int:
        """The positions that a mixer looks back on: the context, unless one position stands for several tokens."""
        return self.context

    @property
    def pattern(self) -> tuple[MixerConfig, ...]:
        """The list of mixers that the layers repeat in order; it has one entry where all layers have the same."""
        return self.mixer if isinstance(self.mixer, tuple) else (self.mixer,)

    @property
    def encoder_pattern(self) -> tuple[MixerConfig, ...] | None:
        """As `pattern`, of the layers of the encoder; None where the model has no encoder next to these layers."""
        return None

    @property
    @override
    def mixers(self) -> tuple[MixerConfig, ...]:
        """The mixer of each layer, in order."""
        return tuple(self.pattern[layer % len(self.pattern)] for layer in range(self.depth))

    def windowed(self, window: int) -> Self:
        """These settings with a window of `window` tokens in every mixer that has a window; the weights fit both.

        If no mixer has a window yet, every mixer that can have one gets it. ValueError where no mixer can have one.
        """
        windowed: dict[MixerConfig, MixerConfig] = {}
        for mixer in dict.fromkeys(self.pattern):
            with_window = mixer.with_window(window)
            if with_window is not None:
                windowed[mixer] = with_window
        if not windowed:
            kinds = ", ".join(sorted({mixer.kind for mixer in self.pattern}))
            raise ValueError(f"{kinds} has no window that training.stages could change: leave window out")
        has_window = {mixer: with_window for mixer, with_window in windowed.items() if mixer.has_window}
        replacements = has_window or windowed
        mixers = tuple(replacements.get(mixer, mixer) for mixer in self.pattern)
        return self.model_copy(update={"mixer": mixers if isinstance(self.mixer, tuple) else mixers[0]})

    @property
    @override
    def distinct(self) -> int:
        """How many first layers differ: each later one has the price and weight sizes of one of them (`like`)."""
        if self.one_block:
            return 1
        return min(self.depth, len(self.pattern) * max(mixer.distinct(self.depth) for mixer in self.pattern))

    def like(self, layer: int) -> int:
        """The one of the first `distinct` layers that has the same price and sizes of weights as `layer`."""
        beyond = layer - self.distinct
        if beyond < 0:
            return layer
        period = len(self.pattern)  # the last `period` of the distinct layers repeat
        return self.distinct - period + beyond % period

    @abstractmethod
    @override
    def build(self, layers: int | None = None) -> Model:
        """The model, freshly initialized. With `layers`, which is `depth` or `distinct`, only that many are built.

        ValueError where a mixer does not fit the sizes or the kind of the model.
        """

    @override
    def tensors(self) -> dict[str, Tensor]:
        sample = weightless(self)
        omitted = {
            f"{name}.{inner_name}": tensor
            for name, module in self.omitted_modules(sample)
            for inner_name, tensor in module.state_dict().items()
        }
        return {**sample.state_dict(), **omitted}

    def omitted_modules(self, sample: Model) -> Iterator[tuple[str, nn.Module]]:
        """The names of what `sample`, a model of the distinct layers alone, lacks of each layer beyond them.

        With each comes the module of `sample` that has the same tensors.
        """
        if self.one_block:
            return
        for number in range(self.distinct, self.depth):
            for name in LAYERWISE:
                modules = sample.get_submodule(name)
                assert isinstance(modules, nn.ModuleList)
                if len(modules):
                    yield f"{name}.{number}", modules[self.like(number)]


def layered(config: ModelConfig, purpose: str = "this") -> LayeredConfig:
    """Returns `config` if the layers of its model are mixers. ValueError, which names the kind, for other models."""
    if not isinstance(config, LayeredConfig):
        raise ValueError(f"a model of kind {config.kind} has no layers of mixers, which {purpose} is about")
    return config

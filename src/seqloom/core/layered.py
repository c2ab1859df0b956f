"""The settings of a model whose layers are a mixer and a second sublayer, such as a feed-forward network.

Commands that price, size or compare layers need such a model: `require_layers(config)` returns its settings, or raises.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from math import lcm
from typing import Any, ClassVar, Literal, Self

from pydantic import Field, SerializeAsAny, SerializerFunctionWrapHandler, model_serializer, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.feed_forward import FeedForwardConfig, by_new_names, by_old_names
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
    dropout: float = Field(0.1, ge=0, lt=1, description="dropout of the embeddings and of each sublayer's output")
    position: SerializeAsAny[PositionConfig] = Field(description="the positional encoding")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer, or a list of mixers that the layers repeat in order"
    )
    std: float = Field(0.01, gt=0, description="standard deviation of the initial weights")
    ffn: SerializeAsAny[FeedForwardConfig] | tuple[SerializeAsAny[FeedForwardConfig], ...] = Field(
        description="the sublayer after each mixer: a feed-forward network or another kind, or a list that the layers "
        "repeat in order"
    )
    embed_norm: bool = Field(False, description="whether the embeddings are normalized, as in RWKV")
    norm_eps: float = Field(1e-5, gt=0, description="ε of the norms, which is added to the mean square")
    norm: Literal["layer", "rms"] = Field(
        "layer", description="the norm before each sublayer and the output: LayerNorm or RMSNorm"
    )
    norm_place: Literal["before", "after", "outputs", "both", "by_mixer"] = Field(
        "before",
        description="norm of the input of a sublayer (pre-norm), of the sum after it (post-norm: Vaswani, BERT; "
        "without a final norm), of its output (OLMo 2), of its input and its output (Gemma 2); by_mixer: of its output "
        "in layers of attention, of its input in others (OLMo hybrid)",
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
        *("embed_norm", "norm", "norm_eps", "norm_place", "sublayers", "residual", "embed_scale", "tie", "head_bias"),
        "scaled_init",
    )

    @model_validator(mode="before")
    @classmethod
    def _by_new_names(cls, values: Any) -> Any:
        return by_new_names(values) if isinstance(values, dict) else values

    @model_serializer(mode="wrap")
    def _without_later_defaults(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """As of all settings; one kind of second sublayer is written by its old names, so that no identity changes."""
        values = self._write_values(write)
        ffn = values.get("ffn")
        return {**values, **by_old_names(ffn)} if isinstance(ffn, dict) else values

    @property
    def has_final_norm(self) -> bool:
        """Whether a norm is between the last layer and the output layer."""
        return self.norm_place != "after"

    @property
    def ffn_pattern(self) -> tuple[FeedForwardConfig, ...]:
        """The list of second sublayers that the layers repeat; it has one entry where all layers have the same."""
        return self.ffn if isinstance(self.ffn, tuple) else (self.ffn,)

    def ffn_of(self, layer: int) -> FeedForwardConfig:
        """The second sublayer of a layer."""
        return self.ffn_pattern[layer % len(self.ffn_pattern)]

    @property
    def ffn_width(self) -> int:
        """The hidden width of the second sublayers. ValueError where they have several."""
        widths = {ffn.width for ffn in self.ffn_pattern}
        if len(widths) > 1:
            raise ValueError(f"the layers have {len(widths)} widths of model.ffn: choose another size")
        return widths.pop()

    def with_ffn_width(self, width: int) -> Self:
        """These settings with another hidden width of every second sublayer."""
        ffn = tuple(ffn.model_copy(update={"width": width}) for ffn in self.ffn_pattern)
        return self.model_copy(update={"ffn": ffn if isinstance(self.ffn, tuple) else ffn[0]})

    @property
    def period(self) -> int:
        """The number of layers after which mixers and second sublayers repeat."""
        return lcm(len(self.pattern), len(self.ffn_pattern))

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

    def with_window(self, window: int) -> Self:
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
        return min(self.depth, self.period * max(mixer.distinct(self.depth) for mixer in self.pattern))

    def like(self, layer: int) -> int:
        """The one of the first `distinct` layers that has the same price and sizes of weights as `layer`."""
        beyond = layer - self.distinct
        if beyond < 0:
            return layer
        return self.distinct - self.period + beyond % self.period  # the last `period` of the distinct layers repeat

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


def require_layers(config: ModelConfig, purpose: str = "this") -> LayeredConfig:
    """Returns `config` if the layers of its model are mixers. ValueError, which names the kind, for other models."""
    if not isinstance(config, LayeredConfig):
        raise ValueError(f"a model of kind {config.kind} has no layers of mixers, which {purpose} is about")
    return config

"""The settings of a model whose layers have a mixer and a second sublayer, such as a feed-forward network."""

from abc import ABC
from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import nn

from seqloom.core.feed_forward import FeedForwardConfig
from seqloom.core.layer import Layer
from seqloom.core.layered import LayeredConfig
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.position import PositionConfig
from seqloom.mixers import mixer_config
from seqloom.models.block import Block, PreNormBlock
from seqloom.models.ffn_kinds import FFNConfig, ffn_config
from seqloom.models.ffn_sublayer import FFNSublayer
from seqloom.models.gated import GatedBlock
from seqloom.models.loop import Loop
from seqloom.models.norm import build_norm
from seqloom.models.output_norm import BothNormsBlock, OutputNormBlock
from seqloom.models.parallel import ParallelBlock
from seqloom.models.post_norm import PostNormBlock
from seqloom.models.reversible import ReversibleBlock, ReversibleLoop
from seqloom.positions import AnyPosition
from seqloom.positions.learned import LearnedConfig

ARRANGEMENTS: dict[str, type[Block]] = {
    "serial": PreNormBlock,
    "parallel": ParallelBlock,
    "reversible": ReversibleBlock,
}
"""the kinds of blocks whose norms are before their sublayers, by `sublayers`"""
NORM_PLACES: dict[str, type[Block]] = {"after": PostNormBlock, "outputs": OutputNormBlock, "both": BothNormsBlock}
"""the kinds of blocks whose norms are elsewhere, by `norm_place`"""


class TransformerConfig(LayeredConfig, ABC):
    """The sizes of a model and the mixers of its layers."""

    kind: str = Field(
        "decoder",
        description="decoder: causal, generates; encoder: bidirectional; classifier: predicts the label of one or "
        "two texts; seq2seq: encoder and decoder; universal, universal_encoder, universal_seq2seq: the "
        "same with one block, applied repeatedly (Universal Transformer); ngram: n-gram counts; hmm: a "
        "hidden Markov model; textcnn: a convolutional classifier of a text; decision: chooses actions "
        "for a target return (Decision Transformer); spalm: mixes in the next tokens of neighbors in a "
        "store; regressor: predicts numbers from numbers; patch_classifier: predicts the label of a picture from "
        "its patches",
    )

    position: AnyPosition = Field(LearnedConfig(), description="kind of position information")

    @field_validator("position", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    ffn: SerializeAsAny[FeedForwardConfig] | tuple[SerializeAsAny[FeedForwardConfig], ...] = Field(
        FFNConfig(), description=str(LayeredConfig.model_fields["ffn"].description)
    )

    @field_validator("ffn", mode="before")
    @classmethod
    def _ffn_by_kind(cls, value: Any) -> Any:
        return ffn_config(value)

    @field_validator("mixer", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        if isinstance(value, dict):
            return mixer_config(value)
        if isinstance(value, (list, tuple)):
            if not value:
                raise ValueError("the list of mixers is empty; name at least one")
            return tuple(cls._by_kind(entry) for entry in value)
        if isinstance(value, MixerConfig):
            return value
        raise ValueError("a mixer is given by its settings, such as {kind: she}")

    @model_validator(mode="after")
    def _all_used(self) -> "TransformerConfig":
        if isinstance(self.mixer, tuple) and len(self.mixer) > self.depth:
            raise ValueError(f"{len(self.mixer)} mixers for {self.depth} layers: the last would never be used")
        return self

    @model_validator(mode="after")
    def _acts(self) -> "TransformerConfig":
        """Raises ValueError for a position that acts inside mixers, none of which has a place for it."""
        place = self.position.place
        if place not in (None, "embedding", "layers") and not any(place in mixer.places for mixer in self.pattern):
            kinds = sorted({mixer.kind for mixer in self.pattern})
            raise ValueError(
                f"{self.position.kind} positions act on {place}, and {', '.join(kinds)} has no place for them: "
                "choose another model.position or a mixer that has"
            )
        return self

    @model_validator(mode="after")
    def _fit(self) -> "TransformerConfig":
        """No setting is ignored."""
        if isinstance(self.ffn, tuple) and len(self.ffn) > self.depth:
            raise ValueError(f"{len(self.ffn)} entries of ffn for {self.depth} layers: the last would never be used")
        if self.sublayers != "serial" and any(ffn.is_none for ffn in self.ffn_pattern):
            raise ValueError(f"sublayers={self.sublayers} needs two sublayers: choose ffn.kind=ffn or a channel mixing")
        if self.sublayers != "serial" and self.norm_place != "before":
            raise ValueError(f"sublayers={self.sublayers} has its norms before them: choose norm_place=before")
        if self.residual != "add" and self.norm_place != "before":
            raise ValueError(f"residual={self.residual} has the norm of the input alone: choose norm_place=before")
        if self.residual != "add" and self.sublayers != "serial":
            raise ValueError(f"sublayers={self.sublayers} adds what sublayers say: choose serial, or residual=add")
        if self.sublayers == "reversible" and self.position.place == "layers":
            raise ValueError(f"{self.position.kind} adds to the input of each layer, which sublayers=reversible cannot")
        return self

    def shared_modules(self) -> dict[str, nn.Module]:
        """What layers of equal settings share, by the kind of their mixer; `kind_2` for a kind's second settings."""
        kinds = [mixer.kind for mixer in self.mixers]
        for mixer in self._shared_names:
            mixer.require_form(self.causal)
        modules: dict[str, nn.Module] = {}
        for mixer, name in self._shared_names.items():
            depth = kinds.count(mixer.kind)
            module = mixer.shared_module(Layer(self.dim, self.reach, self.causal, 0, depth, self._position_in(mixer)))
            if module is not None:
                modules[name] = module
        return modules

    def block(self, layer: int, shared: Mapping[str, nn.Module]) -> Block:
        """Layer number `layer`, from 0, given what `shared` returned: it refers to these modules and holds the others.

        ValueError where its mixer does not fit the sizes or the kind of the model.
        """
        mixer = self.mixer_of(layer, shared.get(self._shared_names[self.mixers[layer]]))
        ffn = self.ffn_of(layer)
        parts = (mixer, ffn.kind, self._built_ffn(layer), self.dropout, self.new_norm)
        if self.residual != "add":
            return GatedBlock(*parts, residual=self.residual)
        return self._arrangement_of(layer)(*parts)

    def _arrangement_of(self, layer: int) -> type[Block]:
        """The kind of block of a layer, where its sublayers are added to the stream."""
        if self.norm_place == "by_mixer":
            return OutputNormBlock if self.mixers[layer].kind == "attention" else PreNormBlock
        return ARRANGEMENTS[self.sublayers] if self.norm_place == "before" else NORM_PLACES[self.norm_place]

    def new_norm(self, dim: int) -> nn.Module:
        """A norm of `dim` channels, as around the layers."""
        return build_norm(self.norm, dim, self.norm_eps)

    def loop(self) -> Loop:
        """What runs the layers."""
        return ReversibleLoop() if self.sublayers == "reversible" else Loop()

    def mixer_of(self, layer: int, shared: nn.Module | None) -> Mixer:
        """The mixer of a layer, given what it shares with others. Raises ValueError as `block` does."""
        config = self.mixers[layer]
        kinds = [mixer.kind for mixer in self.mixers]
        number = kinds[:layer].count(config.kind)
        depth = kinds.count(config.kind)
        position = self._position_in(config)
        return config.build(
            self.dim, self.reach, self.causal, layer=number, depth=depth, shared=shared, position=position
        )

    def _position_in(self, mixer: MixerConfig) -> PositionConfig | None:
        """The model's position, where the mixer has a place for it."""
        return self.position if self.position.place in mixer.places else None

    @property
    def _shared_names(self) -> dict[MixerConfig, str]:
        """The name of the module that layers of the same mixer settings share, by these settings."""
        names: dict[MixerConfig, str] = {}
        for config in dict.fromkeys(self.pattern):
            earlier = sum(other.kind == config.kind for other in names)
            names[config] = f"{config.kind}_{earlier + 1}" if earlier else config.kind
        return names

    def _built_ffn(self, layer: int) -> FFNSublayer | None:
        """The second sublayer of a layer, if there is one."""
        ffn: Any = self.ffn_of(layer).build(self.dim, self.causal, layer, self.depth)
        return ffn  # an `FFNSublayer`, which core does not know


class BidirectionalConfig(TransformerConfig, ABC):
    """The sizes of a model and the bidirectional mixers of its layers.

    A mixer without a bidirectional form of its own reads both ways: `both_ways` with the sum of the two.
    """

    causal: ClassVar = False

    @field_validator("mixer", mode="after")
    @classmethod
    def _in_both_directions(cls, value: MixerConfig | tuple[MixerConfig, ...]) -> MixerConfig | tuple[MixerConfig, ...]:
        return tuple(read_both_ways(mixer) for mixer in value) if isinstance(value, tuple) else read_both_ways(value)

    @model_validator(mode="after")
    def _both_directions(self) -> Any:
        causal = [ffn.kind for ffn in self.ffn_pattern if ffn.causal_only]
        if causal:
            name = f"{'an' if self.kind[0] in 'aeio' else 'a'} {self.kind}"
            raise ValueError(f"ffn.kind={causal[0]} is causal, and {name} reads in both directions: choose ffn or none")
        return self


def read_both_ways(mixer: MixerConfig) -> MixerConfig:
    """The settings themselves where they have a bidirectional form, else those of `both_ways` around them."""
    return mixer if mixer.has_bidirectional else mixer_config({"kind": "both_ways", "mixer": mixer})

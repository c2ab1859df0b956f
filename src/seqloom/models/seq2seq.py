"""An encoder-decoder: an encoder reads a source whole, and a decoder writes a target, token by token, looking at it.

    s = norm(encoder(source))                                                     any bidirectional mixers (B, S, D)
    x = dropout(√D (token + position)),   m times [ self-mixer, cross-attention to s, ffn ],   logits = norm(x) W + b

Both sides have one vocabulary and one embedding; with `tie` the output layer has it too. The decoder's state holds what
its self-mixers remember of the target, and keys and values of s, which are projected once.

Source: Sutskever et al., arXiv:1409.3215; Bahdanau et al., arXiv:1409.0473; Vaswani et al., arXiv:1706.03762. What
differs: any mixers stand where they have recurrent networks or self-attention; the target begins with `<eos>`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar, Literal, NoReturn, final

from jaxtyping import Float, Int
from pydantic import Field, SerializeAsAny, field_validator, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core import extras as named
from seqloom.core.arguments import count
from seqloom.core.config import Config
from seqloom.core.cost import Cost, Per, span
from seqloom.core.extras import Extras, merged
from seqloom.core.mixer_config import MixerConfig
from seqloom.core.model import ModelTraits
from seqloom.core.model_config import ModelConfig, weightless
from seqloom.core.parts import plain
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import LayerState, ModelState, bounded, counted, length_of, measured, stepped, unread
from seqloom.mixers.handing import Handed
from seqloom.models import arguments
from seqloom.models.bidirectional import read_both_ways
from seqloom.models.block import Block
from seqloom.models.config import TransformerConfig
from seqloom.models.cost import inner_cost, layers_cost, norm_cost, output_cost
from seqloom.models.cross_attention import CrossConfig
from seqloom.models.encoder import Encoder, EncoderConfig
from seqloom.models.ffn import FFN
from seqloom.models.head import TiedHead
from seqloom.models.source_block import SourceBlock
from seqloom.models.transformer import Transformer

COMMON = (
    *("vocab", "context", "dim", "ffn", "dropout", "position", "std", "embed_norm", "norm", "activation", "glu"),
    *("ffn_bias", "norm_place", "embed_scale"),
)
"""settings that the encoder and the decoder have together"""


@final
class EncoderLayers(Config):
    """The layers of the encoder; all other settings are the decoder's."""

    depth: int = Field(2, ge=1, le=1000, description="layers of the encoder")
    mixer: SerializeAsAny[MixerConfig] | tuple[SerializeAsAny[MixerConfig], ...] = Field(
        description="the mixer of every layer of the encoder, or a list that they repeat; one without a bidirectional "
        "form reads both ways"
    )

    @field_validator("mixer", mode="before")
    @classmethod
    def _by_kind(cls, value: Any) -> Any:
        return TransformerConfig._by_kind(value)

    @field_validator("mixer", mode="after")
    @classmethod
    def _in_both_directions(cls, value: MixerConfig | tuple[MixerConfig, ...]) -> MixerConfig | tuple[MixerConfig, ...]:
        return tuple(read_both_ways(each) for each in value) if isinstance(value, tuple) else read_both_ways(value)


@final
class Seq2SeqConfig(TransformerConfig):
    """The sizes of an encoder-decoder and its mixers: `mixer` and `depth` are the decoder's."""

    kind: Literal["seq2seq"] = "seq2seq"
    encoder: EncoderLayers = Field(description="the layers of the encoder")
    cross: CrossConfig = Field(CrossConfig(), description="how the decoder looks at the encoder's stream")
    channel: Literal["ffn"] = Field("ffn", description="what follows cross-attention: a feed-forward network")
    sublayers: Literal["serial"] = Field("serial", description="each sublayer reads what the one before it wrote")
    scaled_init: Literal[False] = Field(False, description="of decoders without a source alone")
    causal: ClassVar = True
    objective: ClassVar = "pairs"

    @model_validator(mode="after")
    def _encodes(self) -> "Seq2SeqConfig":
        self.encoding()
        return self

    @property
    @override
    def encoder_pattern(self) -> tuple[MixerConfig, ...]:
        mixer = self.encoder.mixer
        return mixer if isinstance(mixer, tuple) else (mixer,)

    def encoding(self) -> EncoderConfig:
        """The settings of the encoder, whose output layer has no weights of its own."""
        common: dict[str, Any] = {name: getattr(self, name) for name in COMMON}
        own: dict[str, Any] = {"depth": self.encoder.depth, "mixer": self.encoder.mixer}
        return EncoderConfig(**common, **own, tie=True, head_bias=False)

    @override
    def block(self, layer: int, shared: Mapping[str, nn.Module]) -> Block:
        """The self-mixer of a layer, with its norm."""
        mixer = self.mixer_of(layer, shared.get(self._names[self.mixers[layer]]))
        return Block(mixer, "none", None, self.dropout, self.norm, self.norm_place)

    @property
    @override
    def distinct(self) -> int:
        return self.depth

    @override
    def tensors(self) -> dict[str, Tensor]:
        return weightless(self).state_dict()

    @override
    def build(self, layers: int | None = None) -> "Seq2Seq":
        return Seq2Seq(self, layers)


@final
class Seq2Seq(Transformer):
    """Predicts each token of a target from its source and from the tokens before it."""

    config: Seq2SeqConfig
    encoder: Encoder

    def __init__(self, config: Seq2SeqConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        self.encoder = config.encoding().build()
        del self.encoder.token  # the embedding is the decoder's, held and saved once
        self.encoder.__dict__["token"] = self.token
        self.encoder.head = TiedHead(self.token, False)
        self.after = nn.ModuleList(
            SourceBlock(
                config.cross.build(config.dim),
                FFN(config.dim, config.ffn, config.activation, config.glu, config.ffn_bias),
                config.dropout,
                config.norm,
                config.norm_place,
            )
            for _ in self.layers
        )
        """what follows self-mixing in each layer"""
        if not self.token.weight.is_meta:
            self.reset()

    @override
    def reset(self) -> None:
        super().reset()
        if "after" in self._modules:  # not yet where the decoder's own part is built
            self.encoder.reset()
            for block in self.source_blocks:
                plain(block, self.config.std)
                block.cross.init()

    @property
    def source_blocks(self) -> list[SourceBlock]:
        """What follows self-mixing in each layer, in order."""
        return [block for block in self.after if isinstance(block, SourceBlock)]

    @property
    @override
    def traits(self) -> ModelTraits:
        """It writes a target to a source, from a state that `begin` gives, where every self-mixer streams."""
        streams = all(sublayer.traits.streams for sublayer in self.sublayers)
        limits = [limit for limit in (self.longest, self.encoder.longest) if limit is not None]
        return ModelTraits(False, False, min(limits, default=None), translates=streams)

    @override
    def forward(
        self, ids: Ids, keep: Keep | None = None, source: Ids | None = None, source_keep: Keep | None = None
    ) -> Logits:
        """Logits of the token after each position of a target ids (B, T), given sources (B, S)."""
        return self.forward_with_extras(ids, keep, source, source_keep)[0]

    @override
    def forward_with_extras(
        self, ids: Ids, keep: Keep | None = None, source: Ids | None = None, source_keep: Keep | None = None
    ) -> tuple[Logits, Extras]:
        """`forward`, and the auxiliary losses and statistics, named as in `layers.3.balance`, `encoder.layers.0.…`."""
        x, extras = self.features_with_extras(ids, keep, None, source, source_keep)
        return self.logits(x, keep), extras

    @override
    def features_with_extras(
        self,
        ids: Ids,
        keep: Keep | None = None,
        added: Stream | None = None,
        source: Ids | None = None,
        source_keep: Keep | None = None,
    ) -> tuple[Stream, Extras]:
        """The stream (B, T, D) of the target after the last layer. ValueError without a source."""
        if source is None:
            raise ValueError("a model of kind seq2seq reads a source with each target: give source (B, S)")
        if added is not None:
            raise ValueError("nothing is added to the embeddings of a seq2seq model: leave added out")
        self._check_piece(ids, keep)
        encoded, extras = self.encode(source, source_keep)
        if len(source) != len(ids):
            raise ValueError(f"{len(source)} sources for {len(ids)} targets: give one for each")
        time = self._time(ids, ids.new_zeros(len(ids)), keep)
        x = self._embed(ids, time, keep)
        parts, handed = [extras], Handed()
        signals = self._signals(time)
        for number, (block, after) in enumerate(zip(self.blocks, self.source_blocks, strict=True)):
            z = x if signals is None else x + signals(number)
            x, handed, extras = block.forward_with_extras(z, handed, keep)
            x = after(x, after.start(encoded, source_keep))
            parts.append(extras.under(f"layers.{number}"))
        return x, merged(parts)

    def encode(self, source: Ids, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """The encoder's stream (B, S, D) after its norm, and its extras under `encoder.`."""
        x, extras = self.encoder.features_with_extras(source, keep)
        return self.encoder.norm(x), extras.under("encoder")

    def begin(self, source: Ids, keep: Keep | None = None) -> ModelState:
        """The state before the first token of the target, given sources (B, S) of kept tokens `keep` (B, S)."""
        encoded, _ = self.encode(source, keep)
        B = len(source)
        layers = tuple(
            (*block.start(B), after.start(encoded, keep))
            for block, after in zip(self.blocks, self.source_blocks, strict=True)
        )
        return ModelState(layers, unread(B, self.device))

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> NoReturn:
        raise ValueError("a model of kind seq2seq starts from a source: use begin(source)")

    @override
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Reads a further piece of the target; logits after each of its positions. The given state stays."""
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    @override
    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        self._check_piece(ids, keep)
        arguments.check_state(state, len(ids), len(self.layers), 2)
        length, T = length_of(bounded(state.extra)), ids.shape[1]
        time = self._time(ids, length.tokens, keep)
        x = self._embed(ids, time, keep)
        layers: list[LayerState] = []
        handed, signals = Handed(), self._signals(time)
        for number, (block, after) in enumerate(zip(self.blocks, self.source_blocks, strict=True)):
            own, source = state.layers[number]
            z = x if signals is None else x + signals(number)
            x, memory, handed, _ = block.extend_with_extras(z, (own,), handed, keep)
            x = after(x, source)
            layers.append((*memory, source))
        length = length.after(T, T) if keep is None else measured(length.tokens + keep.sum(1))
        return x, ModelState(tuple(layers), counted({}, length))

    @override
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Reads one token of each target; with `reuse` the given state is given up. Logits of the next token."""
        arguments.check_ids(ids, 1, self.device)
        arguments.check_state(state, len(ids), len(self.layers), 2)
        arguments.check_flag("reuse", reuse)
        extra = bounded(state.extra)
        pieces = ids[:, None]
        time = self._time(pieces, extra["length"], None)
        x = self._embed(pieces, time, None)[:, 0]
        layers: list[LayerState] = []
        handed, signals = Handed(), self._signals(time)
        for number, (block, after) in enumerate(zip(self.blocks, self.source_blocks, strict=True)):
            own, source = state.layers[number]
            z = x if signals is None else x + signals(number)[:, 0]
            x, memory, handed = block.step(z, (own,), handed, reuse=reuse)
            x = after(x[:, None], source)[:, 0]
            layers.append((*memory, source))
        return self.output(x[:, None])[:, 0], ModelState(tuple(layers), stepped({}, extra))

    @override
    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room, as it is saved."""
        arguments.check_state(state, None, len(self.layers), 2)
        layers = tuple(
            (*block.trim((own,)), source) for block, (own, source) in zip(self.blocks, state.layers, strict=True)
        )
        return state._replace(layers=layers)

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        encoder = {f"encoder.{name}": weight for name, weight in self.encoder.loss_weights.items()}
        return {**super().loss_weights, **encoder}

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        super().after_update(step, statistics)
        self.encoder.after_update(step, named.within(statistics, "encoder"))

    @override
    def _check_exits(self) -> NoReturn:
        self._lacks("leave layers out")

    @override
    def take_windows(self, config: ModelConfig) -> NoReturn:
        self._lacks("be trained with windows that change")

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one source and one target of T tokens each, or of the target's token at position T alone."""
        rows = span(T, per).rows
        if outputs is not None:
            count("outputs", outputs)
            rows = outputs
        decoder = layers_cost(self.config, self.blocks, T, per)
        after = sum((block.cost(T, per) for block in self.source_blocks), Cost())
        return self._encoding(T, per) + decoder + after + output_cost(self.config, rows)

    @override
    def inner_cost(self, T: int) -> Cost:
        count("T", T)
        after = sum((block.cost(T, "sequence") for block in self.source_blocks), Cost())
        return self.encoder.inner_cost(T) + inner_cost(self.config, self.blocks, T) + after

    def _encoding(self, T: int, per: Per) -> Cost:
        """The price of the encoder, which one more token of the target does not run; the embedding is the decoder's."""
        config = self.encoder.config
        total = layers_cost(config, self.encoder.blocks, T, "sequence")
        if config.norm_place == "before":
            total += norm_cost(T, config.dim, config.norm)
        total = replace(total, params=total.params - config.dim * config.vocab, state=0)
        return total if per == "sequence" else Cost(params=total.params)

"""An encoder-decoder: an encoder reads a source whole, and a decoder writes a target, token by token, looking at it.

    s = norm(encoder(source))                                                     any bidirectional mixers (B, S, D)
    x = dropout(√D (token + position)),   m times [ self-mixer, cross-attention to s, ffn ],   logits = norm(x) W + b

Both sides have one vocabulary and one embedding; with `tie` the output layer has it too. The decoder's state holds what
its self-mixers remember of the target, and keys and values of s, which are projected once.

Source: Sutskever et al., arXiv:1409.3215; Bahdanau et al., arXiv:1409.0473; Vaswani et al., arXiv:1706.03762. What
differs: any mixers stand where they have recurrent networks or self-attention; the target begins with `<eos>`.
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NoReturn

from jaxtyping import Float, Int
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import count
from seqloom.core.cost import Cost, Per, span
from seqloom.core.extras import Extras, merge_extras, without_prefix
from seqloom.core.mixer import Mixer
from seqloom.core.model import ModelTraits
from seqloom.core.model_config import ModelConfig
from seqloom.core.parts import init_weights
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import (
    LayerState,
    ModelState,
    State,
    bound_state,
    count_read,
    length_of,
    measure_length,
    step_state,
    unread,
)
from seqloom.models import arguments
from seqloom.models.cost import inner_cost, layers_cost, norm_cost, output_cost
from seqloom.models.head import TiedHead
from seqloom.models.loop import Layer
from seqloom.models.source_block import PostNormSourceBlock, PreNormSourceBlock, SourceBlock, WithSource
from seqloom.models.transformer import Transformer
from seqloom.models.translator_config import TranslatorConfig
from seqloom.models.verbs import ExtendVerb, ForwardVerb, StepVerb, Verb


class Translator(Transformer, ABC):
    """Predicts each token of a target from its source and from the tokens before it."""

    config: TranslatorConfig
    encoder: Transformer

    def __init__(self, config: TranslatorConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        encoder = config.encoding().build()
        assert isinstance(encoder, Transformer)
        self.encoder = encoder
        del self.encoder.token  # the embedding is the decoder's, held and saved once
        self.encoder.__dict__["token"] = self.token
        self.encoder.head = TiedHead(self.token, False)
        after = PreNormSourceBlock if config.norm_place == "before" else PostNormSourceBlock
        kind = config.ffn_of(0).kind
        self.after = nn.ModuleList(
            after(config.cross.build(config.dim), kind, config.ffn_after(), config.dropout, config.new_norm)
            for _ in self.layers
        )
        """what follows self-mixing in each layer"""
        if not self.token.weight.is_meta:
            self.reset()

    @override
    def reset(self) -> None:
        super().reset()
        if "after" in self._modules:  # the base class calls `reset` before the encoder exists
            self.encoder.reset()
            for block in dict.fromkeys(self.source_blocks):
                init_weights(block, self.config.std)
                block.cross.init()
                block.ffn_sublayer.init()

    @property
    def source_blocks(self) -> list[SourceBlock]:
        """What follows self-mixing in each layer, in order."""
        distinct = [block for block in self.after if isinstance(block, SourceBlock)]
        return [distinct[number % len(distinct)] for number in range(len(self.blocks))]

    @property
    @override
    def sublayers(self) -> list[Mixer]:
        """The self-mixers, and what follows cross-attention where it remembers tokens."""
        channels = [block.ffn_sublayer for block in self.source_blocks]
        return [*super().sublayers, *(channel for channel in channels if channel.state_spec)]

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
        if added is not None:
            raise ValueError(f"nothing is added to the embeddings of a {self.config.kind} model: leave added out")
        x, verb, encoded = self._begin_target(ids, keep, source, source_keep)
        x = self._run_layers(x, verb)
        return x, merge_extras([encoded, verb.extras])

    def _begin_target(
        self, ids: Tensor, keep: Tensor | None, source: Tensor | None, source_keep: Tensor | None
    ) -> tuple[Tensor, Verb, Extras]:
        """The embeddings (B, T, D) of a whole target, the verb that calls its layers, and the encoder's extras."""
        if source is None:
            raise ValueError(f"a model of kind {self.config.kind} reads a source with each target: give source (B, S)")
        self._check_piece(ids, keep)
        encoded, extras = self.encode(source, source_keep)
        if len(source) != len(ids):
            raise ValueError(f"{len(source)} sources for {len(ids)} targets: give one for each")
        time = self._time(ids, ids.new_zeros(len(ids)), keep)
        x = self._embed(ids, time, keep)
        verb = ForwardVerb(time, keep, self.call_kind)
        verb.sources = self._sources(encoded, source_keep)
        return x, verb, extras

    @override
    def _layers_of(self, verb: Verb) -> Sequence[Layer]:
        layers = zip(super()._layers_of(verb), self.source_blocks, verb.sources, strict=True)
        return [WithSource(layer, after, source) for layer, after, source in layers]

    def _sources(self, encoded: Tensor, keep: Tensor | None) -> list[State]:
        """Keys and values of the encoder's stream (B, S, D) for each layer; layers of the same weights share them."""
        states = {block: block.start(encoded, keep) for block in dict.fromkeys(self.source_blocks)}
        return [states[block] for block in self.source_blocks]

    def encode(self, source: Ids, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """The encoder's stream (B, S, D) after its norm, and its extras under `encoder.`."""
        x, extras = self.encoder.features_with_extras(source, keep)
        return self.encoder.norm(x), extras.under("encoder")

    def begin(self, source: Ids, keep: Keep | None = None) -> ModelState:
        """The state before the first token of the target, given sources (B, S) of kept tokens `keep` (B, S)."""
        return self.begin_encoded(self.encode(source, keep)[0], keep)

    def begin_encoded(self, encoded: Stream, keep: Keep | None = None) -> ModelState:
        """The state before the first token of the target, given what `encode` returns (B, S, D)."""
        B = len(encoded)
        sources = self._sources(encoded, keep)
        layers = tuple(
            (*block.start(B), source_state, *source_block.begin(B))
            for block, source_block, source_state in zip(self.blocks, self.source_blocks, sources, strict=True)
        )
        return ModelState(layers, unread(B, self.device))

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> NoReturn:
        raise ValueError(f"a model of kind {self.config.kind} starts from a source: use begin(source)")

    @override
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Logits of a piece of the target that follows `state`, and the state after it.

        The given state does not change.
        """
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    @override
    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        self._check_piece(ids, keep)
        arguments.check_state(state, len(ids), self._sublayer_counts)
        length = length_of(bound_state(state.extra))
        T = ids.shape[1]
        time = self._time(ids, length.tokens, keep)
        verb = ExtendVerb(time, keep, _without_sources(state), self.call_kind)
        verb.sources = _sources_of(state)
        x = self._run_layers(self._embed(ids, time, keep), verb)
        length = length.after(T, T) if keep is None else measure_length(length.tokens + keep.sum(1))
        return x, ModelState(_with_sources(verb), count_read({}, length))

    @override
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits of the token after `ids`, one of each target, and the new state; with `reuse` the given may change."""
        arguments.check_ids(ids, 1, self.device)
        arguments.check_state(state, len(ids), self._sublayer_counts)
        states = [layer[0] for layer in state.layers]
        states += [memory for layer in state.layers for memory in layer[2:]]
        arguments.check_token(self.sublayers, states, len(ids), reuse)
        extra = bound_state(state.extra)
        piece = ids[:, None]
        time = self._time(piece, extra["length"], None)
        verb = StepVerb(time, _without_sources(state), reuse, self.call_kind)
        verb.sources = _sources_of(state)
        x = self._run_layers(self._embed(piece, time, None)[:, 0], verb)
        return self.output(x[:, None])[:, 0], ModelState(_with_sources(verb), step_state({}, extra))

    @override
    def reserve(self, state: ModelState, tokens: int) -> ModelState:
        arguments.check_state(state, None, self._sublayer_counts)
        count("tokens", tokens)
        layers = tuple(
            (*block.reserve((mixer_state,), tokens), *others)
            for block, (mixer_state, *others) in zip(self.blocks, state.layers, strict=True)
        )
        return state._replace(layers=layers)

    @override
    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room, as it is saved."""
        arguments.check_state(state, None, self._sublayer_counts)
        layers = tuple(
            (*block.trim((mixer_state,)), source, *source_block.trim(tuple(channel_memory)))
            for block, source_block, (mixer_state, source, *channel_memory) in zip(
                self.blocks, self.source_blocks, state.layers, strict=True
            )
        )
        return state._replace(layers=layers)

    @override
    def recompute_layers(self, on: bool = True) -> None:
        super().recompute_layers(on)
        self.encoder.recompute_layers(on)

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        encoder = {f"encoder.{name}": weight for name, weight in self.encoder.loss_weights.items()}
        return {**super().loss_weights, **encoder}

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        super().after_update(step, statistics)
        self.encoder.after_update(step, without_prefix(statistics, "encoder"))

    @cached_property
    def _sublayer_counts(self) -> tuple[int, ...]:
        """Of each layer: the self-mixer, cross-attention, and what follows it where it remembers tokens."""
        return tuple(2 + bool(block.ffn_sublayer.state_spec) for block in self.source_blocks)

    @override
    def check_exits(self) -> None:
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
        source_blocks = self._source_cost(T, per)
        return self._encoder_cost(T, per) + decoder + source_blocks + output_cost(self.config, rows)

    @override
    def inner_cost(self, T: int) -> Cost:
        count("T", T)
        decoder = inner_cost(self.config, self.blocks, T) + self._source_cost(T, "sequence")
        return self.encoder.inner_cost(T) + decoder

    def _source_cost(self, T: int, per: Per) -> Cost:
        """The price of what follows self-mixing; layers of the same weights project the source once."""
        blocks = self.source_blocks
        prices = (block.cost(T, per, projected=block in blocks[:number]) for number, block in enumerate(blocks))
        return sum(prices, Cost())

    def _encoder_cost(self, T: int, per: Per) -> Cost:
        """The price of the encoder, which a further token does not run; the embedding is priced with the decoder."""
        config = self.encoder.config
        total = layers_cost(config, self.encoder.blocks, T, "sequence")
        if config.has_final_norm:
            total += norm_cost(T, config.dim, config.norm)
        total += self.encoder.extra_cost(T, "sequence")
        total = replace(total, params=total.params - config.dim * config.vocab, state=0)
        return total if per == "sequence" else Cost(params=total.params)


def _sources_of(state: ModelState) -> list[State]:
    """What each layer keeps of the source: the second entry of its state."""
    return [layer[1] for layer in state.layers]


def _without_sources(state: ModelState) -> list[LayerState]:
    """The states of the other sublayers of each layer."""
    return [(mixer, *memory) for mixer, _, *memory in state.layers]


def _with_sources(verb: Verb) -> tuple[LayerState, ...]:
    """The states of all sublayers of each layer after a pass."""
    layers = zip(verb.states, verb.sources, strict=True)
    return tuple((mixer, source, *memory) for (mixer, *memory), source in layers)

"""What a decoder and an encoder share: embedding (see `embedding`), blocks, head.

    x = dropout(√D (token + position)),   m times Block,   logits = norm(x) W + b

Source: the Extractor paper's Eq. 4-9 and 18-22: untied output with a bias, both embedding tables times √D at use, every
matrix and embedding N(0, 0.01²), biases 0. What else there may be: another `position` or none; embeddings normalized
before the dropout (`embed_norm`: RWKV) or without √D (`embed_scale`); the output layer's W the embedding (`tie`) and
without b (`head_bias`); other norms (`norm`: Mamba), or after each sublayer (`norm_place`: Vaswani et al.), where the
last one is the output's; two streams, whose mean is the output (`sublayers` reversible); and, before training, the
matrix that ends each of N sublayers divided by √N (`scaled_init`: Radford et al., GPT-2, section 2.3).
"""

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from typing_extensions import override

from seqloom.core.arguments import count, mask
from seqloom.core.cost import Cost, Per, span
from seqloom.core.extras import Extras, without_prefix
from seqloom.core.mixer import Mixer
from seqloom.core.model_config import ModelConfig
from seqloom.core.parts import init_weights
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.layers.linear import Linear
from seqloom.mixers.cross_layer import CrossLayer
from seqloom.models import arguments, exits
from seqloom.models.block import Block
from seqloom.models.config import TransformerConfig
from seqloom.models.cost import inner_cost, layers_cost, output_cost
from seqloom.models.cross_layer import CrossLayerCall
from seqloom.models.embedding import EmbeddedModel
from seqloom.models.head import CappedHead, TiedHead, plain_weights
from seqloom.models.loop import Layer, WithSignal
from seqloom.models.recompute import RecomputeLoop
from seqloom.models.verbs import ForwardVerb, LayerCall, Verb
from seqloom.ops.fused.cross_entropy import linear_cross_entropy


class Transformer(EmbeddedModel, ABC):
    """An embedding, blocks and a head.

    Every verb raises TypeError or ValueError, in one line, for arguments that do not fit (`seqloom.models.arguments`).
    With `layers` only that many of the first layers are built, to count the weights of a model whose layers repeat.
    """

    def __init__(self, config: TransformerConfig, layers: int | None = None) -> None:
        super().__init__(config)
        shared = config.shared_modules()
        self.shared = nn.ModuleDict(shared)  # the only owner: the layers' mixers refer to it
        depth = config.depth if layers is None else layers
        self.layers = nn.ModuleList(config.block(layer, shared) for layer in range(depth))
        self.positions = self._build_positions(depth)
        self.loop = config.loop()
        hands_over = any(isinstance(mixer, CrossLayer) for mixer in self.mixers)
        self.call_kind = CrossLayerCall if hands_over else LayerCall
        self.norm = config.new_norm(config.dim) if config.has_final_norm else nn.Identity()
        self.head: Linear | TiedHead | CappedHead
        if config.tie:
            self.head = TiedHead(self.token, config.head_bias)
        else:
            self.head = Linear(config.dim, config.outputs, bias=config.head_bias)
        if not self.token.weight.is_meta:  # there is nothing to draw, and a search of sizes builds hundreds
            self.reset()

    def reset(self) -> None:
        """Draws all weights again: matrices, embeddings and taps N(0, std²), biases 0, norms at gain 1."""
        init_weights(self, self.config.std)
        if self.head.bias is not None:
            nn.init.zeros_(self.head.bias)
        for block in dict.fromkeys(self.blocks):
            block.reset(self.config.std)
        if self.config.scaled_init:
            self._scale()

    @property
    def blocks(self) -> list[Block]:
        """The layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, Block)]

    @property
    @override
    def mixers(self) -> list[Mixer]:
        """The mixer of each layer, in order."""
        return [block.mixer for block in self.blocks]

    @property
    @override
    def sublayers(self) -> list[Mixer]:
        """The mixer and the channel sublayer of each layer, in order."""
        return [sublayer for block in self.blocks for sublayer in block.sublayers]

    @property
    @override
    def key_norm(self) -> nn.Module:
        """The norm before the last layer's second sublayer, or before the output layer if there is none."""
        return self.blocks[-1].key_norm or self.norm

    @property
    def reads_on(self) -> bool:
        """Whether every layer can continue from a state."""
        return not self.loop.without_exits and all(sublayer.traits.streams for sublayer in self.sublayers)

    @property
    def longest(self) -> int | None:
        """The longest text in tokens that the model reads from its start; None for any."""
        limits = [sublayer.traits.longest for sublayer in self.sublayers]
        limits.append(self.config.position.longest(self.config.context))
        return min((limit for limit in limits if limit is not None), default=None)

    @override
    def take_windows(self, config: ModelConfig) -> None:
        assert isinstance(config, TransformerConfig)
        for number, block in enumerate(self.blocks):
            old = block.mixer
            if config.mixers[number] == self.config.mixers[number]:
                continue
            with torch.device("meta"):
                mixer = config.mixer_of(number, old.shared)
            mixer.load_state_dict(old.state_dict(keep_vars=True), assign=True)  # the parameters themselves
            block.mixer = mixer.train(old.training)
        self.config = config

    @override
    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        """Logits of the token after each position; at a dropped position they are 0."""
        return self.logits(self.features(ids, keep), keep)

    @override
    def forward_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Logits, Extras]:
        """`forward`, and the layers' auxiliary losses and statistics, named as in `layers.3.balance`."""
        x, extras = self.features_with_extras(ids, keep)
        return self.logits(x, keep), extras

    @override
    def loss_with_extras(
        self, ids: Ids, targets: Ids, keep: Keep | None = None, **read: Any
    ) -> tuple[Float[Tensor, ""], Extras]:
        if plain_weights(self.head) is None:
            return super().loss_with_extras(ids, targets, keep, **read)
        x, extras = self.features_with_extras(ids, keep, **read)
        return self.loss_of(x, targets, keep), extras

    def loss_of(self, x: Stream, targets: Ids, keep: Keep | None = None) -> Float[Tensor, ""]:
        """The mean loss in nats of the kept `targets` (B, T), given the stream x (B, T, D) after the last layer."""
        if keep is not None:
            x, targets = x[keep][None], targets[keep][None]
        weights = plain_weights(self.head)
        if weights is not None:
            return linear_cross_entropy(self.head_input(x), *weights, targets)
        logits = self.output(x)
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return cross_entropy(wide.flatten(0, 1), targets.flatten())

    @override
    def features_with_extras(
        self, ids: Ids, keep: Keep | None = None, added: Stream | None = None
    ) -> tuple[Stream, Extras]:
        """`features`, and the layers' auxiliary losses and statistics; `added` (B, T, D) is added to the embeddings."""
        x, verb = self._begin(ids, keep, added)
        x = self._run_layers(x, verb)
        return x, verb.extras

    @override
    def exits(self, ids: Ids, keep: Keep | None = None) -> tuple[list[Stream], Extras]:
        self.check_exits()
        x, verb = self._begin(ids, keep)
        streams = exits.streams(self._layers_of(verb), x, verb)
        return streams, verb.extras

    @override
    def exits_at(self, ids: Ids, layers: Int[Tensor, "B T"], keep: Keep | None = None) -> tuple[Stream, Extras]:
        self.check_exits()
        x, verb = self._begin(ids, keep)
        arguments.check_layers(layers, ids, self.config.depth)
        x = exits.leave_at(self._layers_of(verb), x, verb, layers)
        return x, verb.extras

    @override
    def exit_logits(self, x: Stream, layer: int) -> Logits:
        self.check_exits()
        count("layer", layer, least=1)
        if layer > self.config.depth:
            raise ValueError(f"there is no exit after layer {layer} of a model of {self.config.depth} layers")
        arguments.check_features(x, self.config.dim, self.token.weight.dtype, self.device)
        return self.exit_output(x, layer)

    def exit_output(self, x: Stream, layer: int) -> Tensor:
        """The output layer of a layer, from 1, over the stream x (B, T, D) after it; by default that of the model."""
        return self.output(x)

    def _run_layers(self, x: Tensor, verb: Verb) -> Tensor:
        """The stream after all layers, given the embeddings x (B, T, D), or (B, D) of one token."""
        return self.loop(self._layers_of(verb), x, verb)

    def _layers_of(self, verb: Verb) -> Sequence[Layer]:
        """What the loop calls in this pass, in order: the blocks, with what is added to the input of each, if so."""
        signals = self._signals(verb.time)
        if not signals:
            return self.blocks
        return [WithSignal(block, signal) for block, signal in zip(self.blocks, signals, strict=True)]

    def _begin(self, ids: Tensor, keep: Tensor | None, added: Tensor | None = None) -> tuple[Tensor, ForwardVerb]:
        """The embeddings (B, T, D) of a whole text, and the verb by which its layers are called."""
        self._check_piece(ids, keep)
        if added is not None:
            arguments.check_added(added, ids, self.config.dim, self.token.weight.dtype, self.device)
        time = self._time(ids, ids.new_zeros(len(ids)), keep)
        return self._embed(ids, time, keep, added), ForwardVerb(time, keep, self.call_kind)

    @override
    def check_exits(self) -> None:
        """Raises ValueError where a layer's stream is not what the output layer reads."""
        if self.loop.without_exits:
            raise ValueError(self.loop.without_exits)

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        """What training multiplies each auxiliary loss by; 1 for a name that is not there."""
        return {
            f"layers.{number}.{name}": weight
            for number, block in enumerate(self.blocks)
            for name, weight in block.loss_weights.items()
        }

    @property
    @override
    def uncaptured_reason(self) -> str:
        return self.loop.uncaptured_reason

    @override
    def recompute_layers(self, on: bool = True) -> None:
        arguments.check_flag("on", on)
        own = self.config.loop()
        if on and own.uncaptured_reason:
            raise ValueError("sublayers=reversible computes its layers again already: leave out training.recompute")
        self.loop = RecomputeLoop() if on else own

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after each optimizer step, from 1, with the sums of its passes' statistics: see `Mixer`."""
        for number, block in enumerate(self.blocks):
            block.after_update(step, without_prefix(statistics, f"layers.{number}"))

    @override
    def features(self, ids: Ids, keep: Keep | None = None) -> Stream:
        """The stream (B, T, D) after the last layer: what `logits` reads."""
        return self.features_with_extras(ids, keep)[0]

    @override
    def logits(self, x: Stream, keep: Keep | None = None) -> Logits:
        """The output layer over features (B, T, D), of all positions or of those that are wanted; 0 at dropped ones."""
        arguments.check_features(x, self.config.dim, self.token.weight.dtype, self.device)
        if keep is not None:
            mask(keep, x)
        logits = self.output(x)
        return logits if keep is None else torch.where(keep[:, :, None], logits, 0.0)

    def output(self, x: Stream) -> Tensor:
        """The output layer over the stream x (B, T, D) after the last layer."""
        logits: Tensor = self.head(self.head_input(x))
        return logits

    def head_input(self, x: Stream) -> Stream:
        """What the matrix of the output layer multiplies, of the stream x (B, T, D) after the last layer."""
        if x.dtype == torch.float64:  # norms raise for float64 with float32 parameters, also under autocast
            x = x.to(self.token.weight.dtype)
        normed: Tensor = self.norm(x)
        return normed

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        rows = span(T, per).rows
        if outputs is not None:
            count("outputs", outputs)
            rows = outputs
        layers = [self.blocks[self.config.like(layer)] for layer in range(self.config.depth)]
        return layers_cost(self.config, layers, T, per) + output_cost(self.config, rows)

    @override
    def inner_cost(self, T: int) -> Cost:
        count("T", T)
        layers = [self.blocks[self.config.like(layer)] for layer in range(self.config.depth)]
        return inner_cost(self.config, layers, T)

    def extra_cost(self, T: int, per: Per) -> Cost:
        """The price of what a kind of model computes besides its embedding, layers and output."""
        return Cost()

    @torch.no_grad()
    def _scale(self) -> None:
        """Divides the last matrix of each of N sublayers by √N: initially their sum has the variance of one of them."""
        count = sum(1 if self.config.ffn_of(layer).is_none else 2 for layer in range(self.config.depth))
        for sublayer in dict.fromkeys(self.sublayers):
            if sublayer.output_layer is not None:
                sublayer.output_layer.weight.div_(count**0.5)

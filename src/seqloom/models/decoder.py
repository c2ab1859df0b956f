"""The Transformer of the Extractor paper: a decoder around any causal mixers; `transformer` says what it computes.

It predicts the next token at every position, and speaks the mixer's verbs over ids.
"""

from abc import ABC
from functools import cached_property
from itertools import chain
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Float, Int
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core import state_spec as memory_of
from seqloom.core.arguments import count, describe_value
from seqloom.core.cost import Cost, Per, Step, span
from seqloom.core.extras import Extras
from seqloom.core.model import Enough, ModelTraits
from seqloom.core.parts import init_weights
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import ModelState, bound_state, count_read, length_of, measure_length, step_state, unread
from seqloom.models import arguments, exits
from seqloom.models.config import TransformerConfig
from seqloom.models.head import CappedHead, ExitHead
from seqloom.models.transformer import Transformer
from seqloom.models.verbs import ExtendVerb, StepVerb


@final
class DecoderConfig(TransformerConfig):
    """The sizes of a decoder and the mixers of its layers."""

    kind: Literal["decoder"] = "decoder"
    exit_heads: Literal["shared", "own"] = Field(
        "shared",
        description="output layer for early exits: shared with the last layer, or a separate one per layer",
    )
    logit_cap: float | None = Field(None, gt=0, description="c of logits z → c tanh(z/c) (Gemma 2); unset: none")
    causal: ClassVar = True
    later: ClassVar = (*TransformerConfig.later, "exit_heads", "logit_cap")

    @model_validator(mode="after")
    def _exits(self) -> "DecoderConfig":
        if self.exit_heads == "own" and self.sublayers == "reversible":
            raise ValueError("exit_heads=own is of one stream, and sublayers=reversible has two: set serial")
        if self.exit_heads == "own" and self.logit_cap is not None:
            raise ValueError("exit_heads=own have no logit_cap: set shared, or leave logit_cap out")
        return self

    @property
    @override
    def has_exit_heads(self) -> bool:
        return self.exit_heads == "own"

    @override
    def build(self, layers: int | None = None) -> "Decoder":
        return Decoder(self, layers)


class CausalTransformer(Transformer, ABC):
    """Predicts the next token at every position, and reads on from a state."""

    @property
    @override
    def traits(self) -> ModelTraits:
        """The model generates text, and streams if every layer does."""
        return ModelTraits(True, all(sublayer.traits.streams for sublayer in self.sublayers), self.longest)

    @cached_property
    def _sublayer_counts(self) -> tuple[int, ...]:
        """Of each layer: 1 for the mixer alone, 2 where another sublayer follows it."""
        return tuple(len(block.sublayers) for block in self.blocks)

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The memory of `batch` rows before the first token."""
        arguments.check_start(batch, capacity)
        self._check_room(batch, capacity)
        layers = tuple(block.start(batch, capacity=capacity) for block in self.blocks)
        return ModelState(layers, unread(batch, self.device))

    @override
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Logits (B, T, W) of a piece that follows `state`, and the state after it. The given state does not change."""
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    def extend_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Logits, ModelState, Extras]:
        """`extend`, and the layers' auxiliary losses and statistics, named as in `layers.3.balance`."""
        x, state, extras = self.read_with_extras(ids, state, keep)
        return self.logits(x, keep), state, extras

    @override
    def extend_loss(
        self, ids: Ids, targets: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Float[Tensor, ""], ModelState, Extras]:
        x, state, extras = self.read_with_extras(ids, state, keep)
        return self.loss_of(x, targets, keep), state, extras

    @override
    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `extend`, up to the features (B, T, D): for callers that need the logits of few positions."""
        x, state, _ = self.read_with_extras(ids, state, keep)
        return x, state

    def read_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Stream, ModelState, Extras]:
        """`read`, and the layers' auxiliary losses and statistics."""
        self._check_piece(ids, keep)
        arguments.check_state(state, len(ids), self._sublayer_counts)
        length = length_of(bound_state(state.extra))
        T = ids.shape[1]
        time = self._time(ids, length.tokens, keep)
        verb = ExtendVerb(time, keep, state.layers, self.call_kind)
        x = self._run_layers(self._embed(ids, time, keep), verb)
        length = length.after(T, T) if keep is None else measure_length(length.tokens + keep.sum(1))
        return x, ModelState(verb.states, count_read({}, length)), verb.extras

    @override
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits of the token after `ids`, one token per row, and the new state; with `reuse` the given one may change.

        No value is read back from the device.
        """
        x, new_state = self._read_token(ids, state, reuse)
        return self._token_logits(x), new_state

    @override
    def step_until(
        self, ids: Int[Tensor, " B"], state: ModelState, enough: Enough, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState, int]:
        if not callable(enough):
            raise TypeError(
                f"enough is a function of the stream before and after a layer, not {describe_value(enough)}"
            )
        self.check_exits()
        x, verb = self._begin_token(ids, state, reuse)
        x, depth = exits.step_until(self._layers_of(verb), x, verb, enough)
        after = ModelState(verb.states, step_state({}, bound_state(state.extra)))
        if depth < len(state.layers):
            return self.exit_output(x[:, None], depth)[:, 0], after, depth
        return self._token_logits(x), after, depth

    def _read_token(self, ids: Tensor, state: ModelState, reuse: bool) -> tuple[Tensor, ModelState]:
        """As `step`, up to the stream (B, D) after the last layer."""
        x, verb = self._begin_token(ids, state, reuse)
        x = self._run_layers(x, verb)
        return x, ModelState(verb.states, step_state({}, bound_state(state.extra)))

    def _begin_token(self, ids: Tensor, state: ModelState, reuse: bool) -> tuple[Tensor, StepVerb]:
        """The embeddings (B, D) of one token, and the verb by which its layers are called."""
        arguments.check_ids(ids, 1, self.device)
        arguments.check_state(state, ids.shape[0], self._sublayer_counts)
        arguments.check_token(self.sublayers, chain.from_iterable(state.layers), ids.shape[0], reuse)
        piece = ids[:, None]
        time = self._time(piece, bound_state(state.extra)["length"], None)
        return self._embed(piece, time, None)[:, 0], StepVerb(time, state.layers, reuse, self.call_kind)

    def _token_logits(self, x: Tensor) -> Tensor:
        """The output layer over the stream (B, D) of one token per row."""
        return self.output(x)

    @override
    def reserve(self, state: ModelState, tokens: int) -> ModelState:
        arguments.check_state(state, None, self._sublayer_counts)
        count("tokens", tokens)
        layers = tuple(block.reserve(memory, tokens) for block, memory in zip(self.blocks, state.layers, strict=True))
        return state._replace(layers=layers)

    @override
    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room, as it is saved."""
        arguments.check_state(state, None, self._sublayer_counts)
        layers = tuple(block.trim(memory) for block, memory in zip(self.blocks, state.layers, strict=True))
        return state._replace(layers=layers)

    @override
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens; ValueError where a layer cannot restore it."""
        arguments.check_state(state, None, self._sublayer_counts)
        layers = tuple(block.crop(memory, tokens) for block, memory in zip(self.blocks, state.layers, strict=True))
        return ModelState(layers, memory_of.crop({}, state.extra, tokens))

    def _check_room(self, batch: int, capacity: int | None) -> None:
        """ValueError where a state of this many rows and tokens does not fit into memory; a graph has other sizes."""
        if torch.compiler.is_compiling():
            return
        tokens = max(capacity or 0, 1)
        if batch * tokens > 2**16:  # a small state always fits
            per_row = sum(sublayer.cost(tokens, "token").state for sublayer in self.sublayers)
            arguments.check_room(batch * max(per_row, 1), self.token.weight.itemsize, f"a state of {batch} rows")


@final
class Decoder(CausalTransformer):
    """The decoder, whose layers have different weights."""

    config: DecoderConfig

    def __init__(self, config: DecoderConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        if config.logit_cap is not None:
            assert not isinstance(self.head, CappedHead)
            self.head = CappedHead(self.head, config.logit_cap)
        heads = config.depth - 1 if config.has_exit_heads else 0
        options = (config.new_norm, config.has_final_norm, config.head_bias)
        self.exit_heads = nn.ModuleList(ExitHead(config.dim, config.outputs, *options) for _ in range(heads))
        """the output layer of each layer but the last, where it is not the model's"""
        if heads and not self.token.weight.is_meta:
            init_weights(self.exit_heads, config.std)

    @override
    def exit_output(self, x: Stream, layer: int) -> Tensor:
        if not self.exit_heads or layer == self.config.depth:
            return super().exit_output(x, layer)
        logits: Tensor = self.exit_heads[layer - 1](x)
        return logits

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        exits = sum(parameter.numel() for parameter in self.exit_heads.parameters())
        total = super().cost(T, per, outputs) + Cost(params=exits)
        if self.config.logit_cap is None:
            return total
        capped = (span(T, per).rows if outputs is None else outputs) * self.config.vocab
        steps: tuple[Step, ...] = ("division", "multiplication", "exponentiation", "addition", "division")
        cap = Cost(mul=2 * capped, add=2 * capped, div=2 * capped, exp=capped, path=(*steps, "multiplication"))
        return total + cap  # tanh x is (1 - e^-2x) / (1 + e^-2x)

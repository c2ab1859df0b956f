"""The Transformer of the Extractor paper: a decoder around any mixers.

    x = dropout(√D (token + position)),   m times Block,   logits = norm(x) W + b

Source: the Extractor paper's Eq. 4-9 and 18-22: untied output with a bias, both embedding tables times √D at use, every
matrix and embedding N(0, 0.01²), biases 0. Its `position` may be another or none, and its embeddings normalized
(`embed_norm`, before the dropout), which the paper does not do and RWKV does; its norms may be others (Mamba).
"""

from collections.abc import Mapping
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqloom.core import extras as named
from seqloom.core import memory as memory_of
from seqloom.core.arguments import described, mask
from seqloom.core.extras import Extras, merged
from seqloom.core.mixer import Mixer, plain
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import LayerState, ModelState, bounded, counted, length_of, measured, unread
from seqloom.mixers.handing import Handed
from seqloom.models import arguments
from seqloom.models.block import Block
from seqloom.models.config import DecoderConfig
from seqloom.models.dropout import Dropout
from seqloom.models.norm import normalisation
from seqloom.ops.projection import Linear

__all__ = ["Decoder", "DecoderConfig"]


@final
class Decoder(nn.Module):
    """Predicts the next token at every place. Speaks the mixer's verbs over ids.

    Every verb raises TypeError or ValueError, in one line, for arguments that do not fit (`seqloom.models.arguments`).
    With `layers` only the first so many are built, for who counts the weights of a model whose layers repeat.
    """

    def __init__(self, config: DecoderConfig, layers: int | None = None) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocab, config.dim)
        embedded = config.position.place == "embedding"
        self.position = config.position.build(config.dim, config.context) if embedded else None
        self.embed_norm = normalisation(config.norm, config.dim) if config.embed_norm else None
        self.dropout = Dropout(config.dropout)
        shared = config.shared()
        self.shared = nn.ModuleDict(shared)  # here alone: the layers' mixers refer to it, and do not hold it
        depth = config.depth if layers is None else layers
        self.layers = nn.ModuleList(config.block(layer, shared) for layer in range(depth))
        self.norm = normalisation(config.norm, config.dim)
        self.head = Linear(config.dim, config.vocab)
        self.tokenizer: Any = None
        self.reset()

    def reset(self) -> None:
        """Draws all weights anew: matrices, embeddings and taps N(0, std²), biases 0, norms at gain 1."""
        plain(self, self.config.std)
        for block in self.blocks:  # a mixer has the last word on its own
            block.mixer.reset(self.config.std)
            if block.channel is not None:
                block.channel.begin()  # not `reset`: drawn twice, a seed would not give the weights that it always gave

    @property
    def blocks(self) -> list[Block]:
        """The layers, in order."""
        return [layer for layer in self.layers if isinstance(layer, Block)]

    @property
    def halves(self) -> list[Mixer]:
        """Every mixer and what follows it in its layer, in order: for what is asked of each."""
        return [half for block in self.blocks for half in block.halves]

    @property
    def sublayers(self) -> int:
        """In each layer: the mixer, and what follows it if anything does."""
        return 1 if self.config.channel == "none" else 2

    @property
    def longest(self) -> int | None:
        """The longest text in tokens that the model reads from its start; None for any."""
        limits = [half.traits.longest for half in self.halves]
        limits.append(self.config.position.longest(self.config.context))
        return min((limit for limit in limits if limit is not None), default=None)

    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        """Logits of the token after each place; at a dropped place they are 0."""
        return self.logits(self.features(ids, keep), keep)

    def forward_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Logits, Extras]:
        """`forward`, and the layers' auxiliary losses and statistics, named as in `layers.3.balance`."""
        x, extras = self.features_with_extras(ids, keep)
        return self.logits(x, keep), extras

    def features_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """`features`, and the layers' auxiliary losses and statistics."""
        self._check_piece(ids, keep)
        x = self._embed(ids, ids.new_zeros(len(ids)), keep)
        parts: list[Extras] = []
        handed: Handed = {}
        for number, block in enumerate(self.blocks):
            x, handed, extras = block.forward_with_extras(x, handed, keep)
            parts.append(extras.under(f"layers.{number}"))
        return x, merged(parts)

    @property
    def loss_weights(self) -> dict[str, float]:
        """What training multiplies each auxiliary loss by; 1 for a name that is not there."""
        return {
            f"layers.{number}.{name}": weight
            for number, block in enumerate(self.blocks)
            for name, weight in block.loss_weights.items()
        }

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after each optimizer step, from 1, with the sums of its passes' statistics: see `Mixer`."""
        for number, block in enumerate(self.blocks):
            block.after_update(step, named.within(statistics, f"layers.{number}"))

    def features(self, ids: Ids, keep: Keep | None = None) -> Stream:
        """The stream (B, T, D) after the last layer: what `logits` reads."""
        return self.features_with_extras(ids, keep)[0]

    def logits(self, x: Stream, keep: Keep | None = None) -> Logits:
        """The output layer over features (B, T, D), of all places or of those that are wanted; 0 at dropped ones."""
        arguments.check_features(x, self.config.dim, self.token.weight.dtype, self._device)
        if x.dtype == torch.float64:  # a norm takes no float64 next to float32 parameters, under autocast neither
            x = x.to(self.token.weight.dtype)
        if keep is not None:
            mask(keep, x)
        logits: Tensor = self.head(self.norm(x))
        return logits if keep is None else torch.where(keep[:, :, None], logits, 0.0)

    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The memory of `batch` rows before the first token."""
        arguments.check_start(batch, capacity)
        self._check_room(batch, capacity)
        layers = tuple(block.start(batch, capacity=capacity) for block in self.blocks)
        return ModelState(layers, unread(batch, self._device))

    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Reads a further piece; logits after each of its places, and the state after it. The given state stays."""
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    def extend_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Logits, ModelState, Extras]:
        """`extend`, and the layers' auxiliary losses and statistics, named as in `layers.3.balance`."""
        x, state, extras = self.read_with_extras(ids, state, keep)
        return self.logits(x, keep), state, extras

    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `extend`, up to the features (B, T, D): for those who want the logits of few places."""
        x, state, _ = self.read_with_extras(ids, state, keep)
        return x, state

    def read_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Stream, ModelState, Extras]:
        """`read`, and the layers' auxiliary losses and statistics."""
        self._check_piece(ids, keep)
        arguments.check_state(state, len(ids), len(self.layers), self.sublayers)
        length, T = length_of(bounded(state.extra)), ids.shape[1]
        x = self._embed(ids, length.tokens, keep)
        layers: list[LayerState] = []
        parts: list[Extras] = []
        handed: Handed = {}
        for number, (block, memory) in enumerate(zip(self.blocks, state.layers, strict=True)):
            x, after, handed, extras = block.extend_with_extras(x, memory, handed, keep)
            layers.append(after)
            parts.append(extras.under(f"layers.{number}"))
        length = length.after(T, T) if keep is None else measured(length.tokens + keep.sum(1))
        return x, ModelState(tuple(layers), counted({}, length)), merged(parts)

    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Reads one token a row; with `reuse` the given state is given up. Logits of the next token.

        No value is read back from the device.
        """
        arguments.check_ids(ids, 1, self._device)
        arguments.check_state(state, len(ids), len(self.layers), self.sublayers)
        arguments.check_flag("reuse", reuse)
        length = length_of(bounded(state.extra))
        x = self._embed(ids[:, None], length.tokens, None)[:, 0]
        layers: list[LayerState] = []
        handed: Handed = {}
        for block, memory in zip(self.blocks, state.layers, strict=True):
            x, after, handed = block.step(x, memory, handed, reuse=reuse)
            layers.append(after)
        logits: Tensor = self.head(self.norm(x))
        return logits, ModelState(tuple(layers), counted({}, length.after(1, 1)))

    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room, as it is saved."""
        arguments.check_state(state, None, len(self.layers), self.sublayers)
        layers = tuple(block.trim(memory) for block, memory in zip(self.blocks, state.layers, strict=True))
        return state._replace(layers=layers)

    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens; ValueError where a layer does not know it any more."""
        arguments.check_state(state, None, len(self.layers), self.sublayers)
        layers = tuple(block.crop(memory, tokens) for block, memory in zip(self.blocks, state.layers, strict=True))
        return ModelState(layers, memory_of.crop({}, state.extra, tokens))

    @property
    def _device(self) -> torch.device:
        return self.token.weight.device

    def _check_piece(self, ids: Tensor, keep: Tensor | None) -> None:
        """Raises unless ids (B, T) and keep (B, T) fit the model, and every id that is kept the vocabulary."""
        arguments.check_ids(ids, 2, self._device)
        if keep is not None:
            mask(keep, ids)
        arguments.check_range(ids if keep is None else torch.where(keep, ids, 0), self.config.vocab)

    def _check_room(self, batch: int, capacity: int | None) -> None:
        tokens = max(capacity or 0, 1)
        if batch * tokens > 2**16:  # priced where it may matter
            row = sum(half.cost(tokens, "token").state for half in self.halves)
            arguments.check_room(batch * max(row, 1), self.token.weight.itemsize, f"a state of {batch} rows")

    def _embed(self, ids: Tensor, length: Tensor, keep: Tensor | None) -> Tensor:
        if keep is not None:
            ids = torch.where(keep, ids, 0)  # whatever a dropped place holds goes nowhere
        x = arguments.embedded(self.token, ids)
        if self.position is not None:
            if keep is None:
                time = length[:, None] + torch.arange(ids.shape[1], device=ids.device)
            else:
                time = (length[:, None] + keep.cumsum(1) - 1).clamp(min=0)  # positions count kept tokens
            x = x + self.position(time)
        x = x * self.config.dim**0.5
        embedded: Tensor = self.dropout(x if self.embed_norm is None else self.embed_norm(x))
        return embedded


def require_model(model: Any) -> None:
    """Raises TypeError unless `model` is a Decoder."""
    if not isinstance(model, Decoder):
        raise TypeError(f"model is a Decoder, as seqloom.decoder or seqloom.load gives it, not {described(model)}")

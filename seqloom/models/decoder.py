"""The Transformer of the Extractor paper: a decoder around any mixers.

    x = dropout(√D (token + position)),   m times Block,   logits = norm(x) W + b

Source: the Extractor paper's Eq. 4-9 and 18-22: untied output with a bias, both embedding tables times √D at use, every
matrix and embedding N(0, 0.01²), biases 0. Its `positions` may be left out and its embeddings normalised (`embed_norm`,
before the dropout), which the paper does not do and RWKV does; its norms may be others (Mamba).
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from seqloom.core.mixer import Mixer, plain
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import State, check, under, unread, within
from seqloom.models.block import Block
from seqloom.models.config import DecoderConfig
from seqloom.models.dropout import Dropout
from seqloom.models.norm import normalisation
from seqloom.ops.projection import Linear
from seqloom.positions.learned import LearnedPositions

__all__ = ["Decoder", "DecoderConfig"]


@final
class Decoder(nn.Module):
    """Predicts the next token at every place. Speaks the mixer's verbs over ids; its states have keys `layers.3.k`."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocab, config.dim)
        self.position = LearnedPositions(config.context, config.dim) if config.positions == "learned" else None
        self.embed_norm = normalisation(config.norm, config.dim) if config.embed_norm else None
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(config.block(layer) for layer in range(config.depth))
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
    def longest(self) -> int | None:
        """The longest text in tokens that the model reads from its start; None for any."""
        limits = [half.traits.longest for half in self.halves]
        limits += [self.config.context] if self.position is not None else []
        return min((limit for limit in limits if limit is not None), default=None)

    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        """Logits of the token after each place; at a dropped place they are 0."""
        return self.logits(self.features(ids, keep), keep)

    def features(self, ids: Ids, keep: Keep | None = None) -> Stream:
        """The stream (B, T, D) after the last layer: what `logits` reads."""
        x = self._embed(ids, ids.new_zeros(len(ids)), keep)
        for block in self.blocks:
            x = block(x, keep)
        return x

    def logits(self, x: Stream, keep: Keep | None = None) -> Logits:
        """The output layer over features (B, T, D), of all places or of those that are wanted; 0 at dropped ones."""
        logits: Tensor = self.head(self.norm(x))
        return logits if keep is None else torch.where(keep[:, :, None], logits, 0.0)

    def start(self, batch: int, *, capacity: int | None = None) -> State:
        """The memory of `batch` rows before the first token."""
        state = unread(batch, self.token.weight.device)
        for number, block in enumerate(self.blocks):
            state |= under(block.start(batch, capacity=capacity), f"layers.{number}")
        return state

    def extend(self, ids: Ids, state: State, keep: Keep | None = None) -> tuple[Logits, State]:
        """Reads a further piece; logits after each of its places, and the state after it. The given state stays."""
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    def read(self, ids: Ids, state: State, keep: Keep | None = None) -> tuple[Stream, State]:
        """As `extend`, up to the features (B, T, D): for those who want the logits of few places."""
        check(state, len(ids))
        x = self._embed(ids, state["seen"], keep)
        read = keep.sum(1) if keep is not None else ids.shape[1]
        then: State = {"seen": state["seen"] + read}
        for number, block in enumerate(self.blocks):
            x, memory = block.extend(x, within(state, f"layers.{number}"), keep)
            then |= under(memory, f"layers.{number}")
        return x, then

    def step(self, ids: Int[Tensor, " B"], state: State, *, reuse: bool = False) -> tuple[Float[Tensor, "B W"], State]:
        """Reads one token a row; with `reuse` the given state is given up. Logits of the next token."""
        check(state, len(ids))
        x = self._embed(ids[:, None], state["seen"], None)[:, 0]
        then: State = {"seen": state["seen"] + 1}
        for number, block in enumerate(self.blocks):
            x, memory = block.step(x, within(state, f"layers.{number}"), reuse=reuse)
            then |= under(memory, f"layers.{number}")
        logits: Tensor = self.head(self.norm(x))
        return logits, then

    def trim(self, state: State) -> State:
        """The same state, contiguous and without unused room, as it is saved."""
        then: State = {"seen": state["seen"]}
        for number, block in enumerate(self.blocks):
            then |= under(block.trim(within(state, f"layers.{number}")), f"layers.{number}")
        return then

    def _embed(self, ids: Tensor, seen: Tensor, keep: Tensor | None) -> Tensor:
        vocab = self.config.vocab
        if keep is not None:
            if keep.shape != ids.shape or keep.dtype != torch.bool:
                raise ValueError(f"keep must be bool {tuple(ids.shape)}, not {keep.dtype} {tuple(keep.shape)}")
            ids = torch.where(keep, ids, 0)  # whatever a dropped place holds goes nowhere
        if not torch.compiler.is_compiling() and ids.numel() and not 0 <= int(ids.min()) <= int(ids.max()) < vocab:
            raise ValueError(
                f"token ids must lie in 0 … {vocab - 1} (the vocabulary), not {int(ids.min())} … {int(ids.max())}"
            )
        x: Tensor = self.token(ids)
        if self.position is not None:
            if keep is None:
                time = seen[:, None] + torch.arange(ids.shape[1], device=ids.device)
            else:
                time = (seen[:, None] + keep.cumsum(1) - 1).clamp(min=0)  # positions count kept tokens
            x = x + self.position(time)
        x = x * self.config.dim**0.5
        embedded: Tensor = self.dropout(x if self.embed_norm is None else self.embed_norm(x))
        return embedded

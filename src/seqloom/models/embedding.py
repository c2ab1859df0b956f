"""The embedding: ids become the input of the first layer.

    x = dropout(norm(√D (token + position)))        the norm if `embed_norm`, √D if `embed_scale`

A position that acts on layers is added to the input of each of them (`_signals`).

Source: as of `transformer`.
"""

from abc import ABC

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import mask
from seqloom.core.model import Model
from seqloom.core.position import EmbeddingPosition
from seqloom.models import arguments
from seqloom.models.config import TransformerConfig
from seqloom.models.dropout import Dropout


class EmbeddedModel(Model, ABC):
    """A model whose layers read embeddings of tokens and their positions."""

    config: TransformerConfig
    token: nn.Embedding
    positions: nn.ModuleList
    """the positions that are added to the inputs of layers; set after the layers, so that weights are drawn in order"""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocab, config.dim)
        embedded = config.position.place == "embedding"
        self.position = config.position.build(config.dim, config.context) if embedded else None
        self.embed_norm = config.new_norm(config.dim) if config.embed_norm else None
        self.dropout = Dropout(config.dropout)

    def _build_positions(self, depth: int) -> nn.ModuleList:
        """The position of each layer, where the model's position acts on layers; otherwise none."""
        config = self.config
        in_layers = config.position.place == "layers"
        positions = [config.position.build(config.dim, config.context) for _ in range(depth if in_layers else 0)]
        return nn.ModuleList(position for position in positions if position is not None)

    @property
    @override
    def device(self) -> torch.device:
        return self.token.weight.device

    @property
    @override
    def dtype(self) -> torch.dtype:
        return self.token.weight.dtype

    @override
    @torch.no_grad()
    def take_vectors(self, vectors: Float[Tensor, "W D"]) -> None:
        # so that the stream begins with the vectors themselves
        scale = self.config.dim**0.5 if self.config.embed_scale else 1.0
        self.token.weight.copy_(vectors / scale)

    def _check_piece(self, ids: Tensor, keep: Tensor | None) -> None:
        """Raises unless ids (B, T) and keep (B, T) fit the model, and every id that is kept the vocabulary."""
        arguments.check_ids(ids, 2, self.device)
        if keep is not None:
            mask(keep, ids)
        arguments.check_range(ids if keep is None else torch.where(keep, ids, 0), self.config.vocab)

    def _time(self, ids: Tensor, length: Tensor, keep: Tensor | None) -> Tensor | None:
        """The position (B, T) of each token after `length` (B,) others; None where the model has no use for it."""
        if self.position is None and not self.positions:
            return None
        if keep is None:
            first = length[:, None]
            return first if ids.shape[1] == 1 else first + torch.arange(ids.shape[1], device=ids.device)
        return (length[:, None] + keep.cumsum(1) - 1).clamp(min=0)  # positions count kept tokens

    def _embed(self, ids: Tensor, time: Tensor | None, keep: Tensor | None, added: Tensor | None = None) -> Tensor:
        """The input of the first layer: √D (token + position + `added`), as `_first_input` gives it."""
        if keep is not None:
            ids = torch.where(keep, ids, 0)  # the id of a dropped position is ignored
        x = arguments.embed_ids(self.token, ids)
        position = self.position if isinstance(self.position, EmbeddingPosition) else None
        if position is not None and position.scaled:
            x = x + position(time)
        if added is not None:
            x = x + added
        if self.config.embed_scale:
            x = x * self.config.dim**0.5
        if position is not None and not position.scaled:
            x = x + position(time).to(x.dtype)
        return self._first_input(x)

    def _first_input(self, x: Tensor) -> Tensor:
        """The input of the first layer, given embeddings: their norm, if any, then dropout."""
        embedded: Tensor = self.dropout(x if self.embed_norm is None else self.embed_norm(x))
        return embedded

    def _signals(self, time: Tensor | None) -> list[Tensor]:
        """What is added to the input of each layer, of positions `time` (B, T); empty where nothing is."""
        scale = self.config.dim**0.5 if self.config.embed_scale else 1.0
        return [position(time) * scale for position in self.positions]

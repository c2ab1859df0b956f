"""A model that reads each row in N pieces and keeps for the backward only the states between them.

    h_0 = start,     loss_n, h_n = loss and state of piece n, read after h_{n-1},     loss = Σ_n (T_n / T) loss_n

Gradients go through the states, so that the loss and its gradient are those of the whole row, for one more forward.
The activations and logits of one piece are in memory at a time. Where the state has the size of its context, or grows,
the states between the pieces are more than is saved, and pieces are refused.

Source: backpropagation through time with recomputation, Chen et al., arXiv:1604.06174, section 3, along the tokens.
"""

from typing import Any, final

from jaxtyping import Float
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqloom.core.extras import Extras, weight_extras
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model, require_streams
from seqloom.core.row_draws import Piece, read_piece
from seqloom.core.shapes import Ids
from seqloom.core.state import ModelState
from seqloom.ops.backends import checkpoint_contexts

KEPT = {"grows": "grows with the text", "window": "is as long as its window"}
"""states of which one for each piece would be more than is saved"""


def require_pieces(model: Model) -> None:
    """Raises ValueError, which names the reason, where reading in pieces would not save memory, or is not built."""
    require_streams(model, "be trained with training.pieces")
    config = model.config
    if not isinstance(config, LayeredConfig) or config.looks_up or model.traits.translates:
        raise ValueError(f"model.kind={config.kind} is not read in pieces: leave training.pieces out")
    for mixer, settings in zip(model.mixers, config.mixers, strict=False):
        if mixer.traits.state in KEPT:
            raise ValueError(
                f"training.pieces would take more memory, not less: the state of model.mixer.kind={settings.kind} "
                f"{KEPT[mixer.traits.state]}, and one is kept for each piece; choose training.recompute=layer"
            )


@final
class InPieces:
    """A model as an objective calls it: `loss_with_extras` reads the rows in `pieces` pieces."""

    def __init__(self, model: Model, pieces: int) -> None:
        self.model = model
        self.pieces = pieces

    def loss_with_extras(self, ids: Ids, targets: Ids) -> tuple[Float[Tensor, ""], Extras]:
        """The mean loss in nats of `targets` (B, T), the tokens after `ids` (B, T), and the extras of the pass."""
        state = self.model.start(len(ids))
        tokens = ids.shape[1]
        losses: list[Tensor] = []
        extras: list[tuple[Extras, Tensor]] = []
        first = 0
        for piece, wanted in zip(self._split(ids), self._split(targets), strict=True):
            place = Piece(first, tokens)
            arguments: tuple[Any, ...] = (piece, wanted, state, place)
            loss, state, found = checkpoint(self._read, *arguments, use_reentrant=False, context_fn=checkpoint_contexts)
            share = loss.new_tensor(piece.shape[1] / tokens)
            losses.append(share * loss)
            extras.append((found, share))
            first += piece.shape[1]
        return sum(losses[1:], losses[0]), weight_extras(extras)

    def _split(self, ids: Tensor) -> list[Tensor]:
        """The pieces of each row, of equal lengths up to one token; fewer where there are fewer tokens."""
        return list(ids.tensor_split(min(self.pieces, ids.shape[1]), 1))

    def _read(self, ids: Tensor, targets: Tensor, state: ModelState, place: Piece) -> tuple[Tensor, ModelState, Extras]:
        """The mean loss of a piece that follows `state`, the state after it, and the extras."""
        with read_piece(self.model, place, begins=place.first == 0):
            return self.model.extend_loss(ids, targets, state)

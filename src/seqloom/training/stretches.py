"""A model of which each process reads a stretch of every row, and that goes on from the process before.

    h_{l, r} = state of layer l after stretch r, read after h_{l, r-1}            l: layer, r: process
    loss = Σ_r (n_r / n) loss_r                                                   n_r of the row's n targets

Process r runs layer l when process r - 1 has: of L layers, M micro-batches and R processes, each waits for at most
R - 1 of L M + R - 1 layers, there and back. All micro-batches are read forward first, and then backward, so that the
activations of all M are in memory. A state of constant size is all that travels. Attention's keys and values travel
too: its losses and gradients are right, and what is sent grows with the text.

Source: pipelines of micro-batches, Huang et al., arXiv:1811.06965, along the tokens instead of the layers, as in
Li et al., arXiv:2102.07988 (TeraPipe). Here each layer is a stage, by the mixers' own `extend`.
"""

from typing import final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.extras import Extras, weight_extras
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model, require_streams
from seqloom.core.row_draws import Piece, read_piece
from seqloom.core.shapes import Ids, Keep
from seqloom.core.state import LayerState, Length, ModelState, State, count_read, measure_length
from seqloom.models.decoder import CausalTransformer
from seqloom.models.wavefront import Exchange, exchange_states
from seqloom.training.group import Group
from seqloom.training.relay import Relay, receive, send


def require_stretches(model: Model) -> None:
    """Raises ValueError, which names the reason, where the rows of a model cannot be shared by processes."""
    require_streams(model, "be trained with training.sequence")
    config = model.config
    if not isinstance(model, CausalTransformer) or not isinstance(config, LayeredConfig) or config.looks_up:
        raise ValueError(f"model.kind={config.kind} is not read in stretches: leave training.sequence out")
    if getattr(config, "halt", False):
        raise ValueError("model.halt=true ends each token by itself: leave training.sequence out, or set it to false")
    for part, settings in zip(model.mixers, config.mixers, strict=False):
        if getattr(settings, "noise", False):
            raise ValueError(
                f"model.mixer.noise of {settings.kind} would depend on training.sequence: leave one of them out"
            )
        if list(part.clipped_apart):
            raise ValueError(
                f"model.mixer.loss of {settings.kind} would depend on training.sequence, being of what is read in one "
                "piece: set it to none, or leave training.sequence out"
            )


@final
class InStretches:
    """A model as an objective calls it: `loss_with_extras` reads this process's stretch of each row."""

    def __init__(self, model: CausalTransformer, group: Group) -> None:
        self.model = model
        self.relay = Relay(group, model.device)
        self._mesh = group.mesh

    def loss_with_extras(self, ids: Ids, targets: Ids, keep: Keep | None = None) -> tuple[Float[Tensor, ""], Extras]:
        """This process's part of the mean loss in nats of the kept `targets` (B, T), the tokens after `ids` (B, T).

        A process without a token, of rows that are shorter than there are processes, reads the first one for nothing.
        """
        tokens = ids.shape[1]
        first, last = self._mesh.stretch(tokens)
        counts = first < last
        if not counts:
            first, last = 0, 1
        here = slice(first, last)
        kept = None if keep is None else keep[:, here]
        before = _length_before(ids, keep, first)
        state = self._state(before)
        exchange = _Exchange(self.relay, before if first else None, sends=counts and last < tokens)
        with read_piece(self.model, Piece(first, tokens), begins=True), exchange_states(self.model, exchange):
            loss, _, extras = self.model.extend_loss(ids[:, here], targets[:, here], state, kept)
        share = _share(keep, kept, (last - first) / tokens, loss) if counts else torch.zeros_like(loss)
        return share * loss, weight_extras([(extras if counts else _nothing_of(extras), share)])

    def _state(self, length: Length) -> ModelState:
        """A state after so many tokens, whose entries of layers have the right shapes and no values."""
        start = self.model.start(len(length.tokens), capacity=length.bound)
        return start._replace(extra=count_read({}, length))


@final
class _Exchange(Exchange):
    """What a pass over one stretch receives, if it follows `length` tokens, and sends, if another stretch follows."""

    def __init__(self, relay: Relay, length: Length | None, *, sends: bool) -> None:
        self._relay = relay
        self._length = length
        self._sends = sends
        self._like: LayerState = ()

    @override
    def receive(self, x: Tensor, states: LayerState) -> tuple[Tensor, LayerState]:
        self._like = states
        if self._length is None:
            return x, states
        x, received = receive(self._relay, x, _tensors(states))
        arrived = iter(received)
        return x, tuple(count_read({name: next(arrived) for name in _names(state)}, self._length) for state in states)

    @override
    def send(self, x: Tensor, states: LayerState) -> Tensor:
        if not self._sends:
            return x
        stored = zip(_tensors(states), _tensors(self._like), strict=True)
        return send(self._relay, x, [tensor.to(like.dtype) for tensor, like in stored])  # autocast may leave others


def _names(state: State) -> list[str]:
    """The entries that travel, in one order for both processes, which know how many tokens come before a stretch."""
    return sorted(name for name in state if name != "length")


def _tensors(states: LayerState) -> list[Tensor]:
    return [state[name] for state in states for name in _names(state)]


def _length_before(ids: Ids, keep: Keep | None, first: int) -> Length:
    """How many tokens of each row are read before a stretch that begins at `first`."""
    if keep is None:
        return Length(ids.new_full((len(ids),), first, dtype=torch.long), first, even=True)
    counts: Int[Tensor, " B"] = keep[:, :first].sum(1)
    return measure_length(counts)


def _share(keep: Keep | None, kept: Keep | None, even: float, loss: Tensor) -> Tensor:
    """The part of all targets that a stretch has, of the dtype of `loss`."""
    if keep is None or kept is None:
        return loss.new_tensor(even)
    return kept.sum().to(loss.dtype) / keep.sum()


def _nothing_of(extras: Extras) -> Extras:
    """The same names, with statistics of 0."""
    return Extras(extras.losses, {name: torch.zeros_like(value) for name, value in extras.statistics.items()})

"""Which layers need attention: those that lose most where it sees only the latest tokens, found one after the other.

    while more than n layers see everything:    the layer without which the loss is lowest gets a window, for good

The layers that keep attention are the n last ones. The window is untrained (`seqloom.models.stand_ins`), so that it
measures what a layer takes from far away: a mixer with a state learns the rest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from seqloom.core.model import Model
from seqloom.core.progress import Show, show_nothing
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.models.stand_ins import attention_in_windows
from seqloom.models.switched import SwitchedMixers


@final
@dataclass(frozen=True)
class Given:
    """A layer that was given a window, and the loss with it and those before it, in nats a token."""

    layer: int
    loss: float


def give_windows(
    model: Model,
    tokens: Tokens,
    layers: Sequence[int],
    keep: int,
    *,
    window: int = 16,
    batch: int = 16,
    context: int | None = None,
    show: Show = show_nothing,
) -> list[Given]:
    """The layers that get a window, in this order, until `keep` of `layers` have attention.

    ValueError unless some are given one.
    """
    if not 0 <= keep < len(layers):
        raise ValueError(f"of {len(layers)} layers with attention, {keep} are to keep it: nothing would be replaced")
    near = attention_in_windows(model, layers, window)
    given: list[Given] = []
    left = list(layers)
    trials = sum(range(keep + 1, len(layers) + 1))
    with show("comparing", trials, "layers") as advance:
        while len(left) > keep:
            losses = {}
            for number in left:
                mixers = {layer: near.of(layer) for layer in (*(step.layer for step in given), number)}
                with SwitchedMixers(mixers).in_place(model):
                    losses[number] = score(model, tokens, batch=batch, context=context).row()["held_out"]
                advance()
            best = min(losses, key=lambda number: losses[number])
            given.append(Given(best, losses[best]))
            left.remove(best)
    return given

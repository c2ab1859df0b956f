"""What whole models cost, one mixer in place of another: to train on a row, to read a prompt, to write one more token.

    training   a row of T tokens, its forward, each place predicting the next
    prefill    a prompt of T tokens, of which the last alone predicts
    token      the token at place T, the T-1 before it read

Layers are built on the meta device, once each, as `sizes` does: the price of a large model comes at once too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import torch

from seqloom.analysis.cost import layers_cost, output_cost
from seqloom.analysis.sizes import pattern
from seqloom.core.cost import Cost
from seqloom.mixers import kinds, mixer_config
from seqloom.models.decoder import DecoderConfig

Use: TypeAlias = Literal["training", "prefill", "token"]


@final
@dataclass(frozen=True)
class Whole:
    """The prices of one whole model, by its mixer."""

    mixer: str
    costs: dict[Use, Cost]


@final
@dataclass(frozen=True)
class Refused:
    """A mixer that has no price at these sizes, and why."""

    mixer: str
    reason: str


def whole(config: DecoderConfig, T: int) -> dict[Use, Cost]:
    """The three prices of a model for T tokens. ValueError where it cannot be built or reads fewer."""
    with torch.device("meta"):
        shared = config.shared()
        blocks = [config.block(place, shared) for place in range(len(pattern(config)))]
    limits = [half.traits.longest for block in blocks for half in block.halves]
    limits.append(config.position.longest(config.context))
    longest = min((limit for limit in limits if limit is not None), default=T)
    if longest < T:
        raise ValueError(f"it reads at most {longest} tokens, not {T}")
    layers = [blocks[layer % len(blocks)] for layer in range(config.depth)]
    sequence, one = layers_cost(config, layers, T, "sequence"), layers_cost(config, layers, T, "token")
    last = output_cost(config, 1)
    return {"training": sequence + output_cost(config, T), "prefill": sequence + last, "token": one + last}


def each(config: DecoderConfig, T: int) -> Iterator[Whole | Refused]:
    """The prices of the same model with every mixer of the registry, in its order.

    A mixer that `config` has keeps its settings there; others have their own defaults.
    """
    own = {mixer.kind: mixer for mixer in reversed(pattern(config))}
    for kind in kinds():
        mixer = own[kind] if kind in own else mixer_config({"kind": kind})
        try:
            yield Whole(kind, whole(config.model_copy(update={"mixer": mixer}), T))
        except ValueError as error:
            yield Refused(kind, str(error))

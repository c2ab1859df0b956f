"""The price of whole models, one mixer in place of another: to train on a row, read a prompt, write one more token.

    training   a row of T tokens, its forward, each position predicting the next
    prefill    a prompt of T tokens, of which the last alone predicts
    token      the token at position T, the T-1 before it read

Layers are built on the meta device, once each, as `sizes` does: the price of a large model comes at once too.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

from seqloom.core.cost import Cost
from seqloom.core.layered import require_layers
from seqloom.core.model_config import ModelConfig, weightless
from seqloom.mixers import kinds, mixer_config

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


def whole(config: ModelConfig, T: int) -> dict[Use, Cost]:
    """The prices of a model for T tokens, by use: `training` always, the others as far as the model generates.

    The `token` of a model that translates is the T-th of a target to a source of T tokens. ValueError where the model
    cannot be built or reads fewer tokens.
    """
    model = weightless(config)
    longest = model.traits.longest
    if longest is not None and longest < T:
        raise ValueError(f"it reads at most {longest} tokens, not {T}")
    costs: dict[Use, Cost] = {"training": model.cost(T)}
    if model.traits.generates:
        costs |= {"prefill": model.cost(T, outputs=1), "token": model.cost(T, "token")}
    elif model.traits.translates:
        costs["token"] = model.cost(T, "token")
    return costs


def require_use(config: ModelConfig, costs: Mapping[Use, Cost], per: Use | Literal["sequence"] | None) -> Use:
    """The use that `per` names; training without one. ValueError where a model of this kind has no such price."""
    use: Use = "training" if per is None or per == "sequence" else per
    if use not in costs:
        raise ValueError(f"a model of kind {config.kind} does not generate: it has no price of {use}, only of training")
    return use


def every_mixer(config: ModelConfig, T: int) -> Iterator[Whole | Refused]:
    """The prices of the same model with every mixer of the registry, in its order.

    A mixer that `config` has keeps its settings there; others have their own defaults.
    """
    own_settings = {mixer.kind: mixer for mixer in reversed(require_layers(config, "a comparison of mixers").pattern)}
    for kind in kinds():
        mixer = own_settings[kind] if kind in own_settings else mixer_config({"kind": kind})
        try:
            yield Whole(kind, whole(config.model_copy(update={"mixer": mixer}), T))
        except ValueError as error:
            yield Refused(kind, str(error))

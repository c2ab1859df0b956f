"""The Universal Transformer: one block, applied T times, around any mixer; `transformer` has what is around it.

    h_0 = embedding,   h_t = Block(h_{t-1} + P_i + S_t)       t = 1 … T = `depth`; i: the position of a token
    S_t = the waves of `positions.sinusoidal` at t,   P_i = the model's position, if it acts on the embedding

With norms after the sublayers (`norm_place`) the block is the paper's: A = norm(z + mixer(z)), norm(A + transition(A)),
z = h + P + S. The transition is a feed-forward network or two separable convolutions (`channel`). With `halt` each
position has its output after as many steps as it needs, see `halting`; all are computed, because later tokens may read
what an earlier one has left at any step. The state holds what the mixer remembers of each step.

Source: Dehghani et al., Universal Transformers, arXiv:1807.03819, Eq. 4-6. Here are the decoder alone and the
encoder alone, in `universal_seq2seq` both. By default norms are before the sublayers. Seed 002 adds the transition to
A^{t-1} instead of A^t and leaves P^t out of the residual.
"""

from abc import ABC
from collections.abc import Mapping
from typing import ClassVar, Literal, final

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, span
from seqloom.core.extras import add_statistics, without_prefix
from seqloom.core.mixer import Mixer
from seqloom.core.model import ModelTraits
from seqloom.core.position import EmbeddingPosition
from seqloom.core.shapes import Ids, Keep
from seqloom.models.block import Block
from seqloom.models.config import BidirectionalConfig, TransformerConfig
from seqloom.models.decoder import CausalTransformer
from seqloom.models.halting import Halting, Pondering
from seqloom.models.transformer import Transformer
from seqloom.models.verbs import Verb
from seqloom.positions.sinusoidal import Sinusoidal, SinusoidalConfig


class RepeatedConfig(TransformerConfig, ABC):
    """The sizes of a model of one block, its mixer, and whether its positions halt."""

    depth: int = Field(6, ge=1, le=1000, description="largest number of times that the block is applied")
    halt: bool = Field(
        False, description="whether each position halts after its own number of steps (adaptive computation time)"
    )
    epsilon: float = Field(0.01, gt=0, lt=1, description="a position halts where its probabilities sum to 1 - epsilon")
    ponder: float = Field(0.01, ge=0, description="weight of the loss N + R of a position with N steps and remainder R")
    one_block: ClassVar = True

    @model_validator(mode="after")
    def _one_mixer(self) -> "RepeatedConfig":
        if isinstance(self.mixer, tuple):
            raise ValueError("a universal model has one block: give one mixer, not a list")
        if isinstance(self.ffn, tuple):
            raise ValueError("a universal model has one block: give one ffn, not a list")
        if self.sublayers == "reversible":
            raise ValueError(
                "sublayers=reversible has a seed for each layer, and a universal model one block: set serial"
            )
        if self.position.place == "layers":
            raise ValueError(f"{self.position.kind} has weights for each layer, which one block lacks: choose learned")
        changed = [n for n in ("epsilon", "ponder") if getattr(self, n) != type(self).model_fields[n].default]
        if changed and not self.halt:
            raise ValueError(f"{changed[0]} is of positions that halt: set halt=true")
        return self

    @override
    def mixer_of(self, layer: int, shared: nn.Module | None) -> Mixer:
        """The mixer of the block, which all steps share, so that it is layer 0 of 1."""
        config = self.pattern[0]
        return config.build(self.dim, self.context, self.causal, shared=shared, position=self._position_in(config))


class Repeated(Transformer, ABC):
    """A model of one block, which is each of its layers; `layers` holds it once."""

    config: RepeatedConfig

    def __init__(self, config: RepeatedConfig) -> None:
        super().__init__(config, 1)
        self.signal = Sinusoidal(config.dim, SinusoidalConfig().base)
        self.positions = nn.ModuleList([] if self.position is None else [self.position])
        self.position = None  # it is added at each step instead
        self.halting = Halting(config.dim, config.depth, config.epsilon) if config.halt else None
        if self.halting is not None and not self.token.weight.is_meta:
            self.reset()

    @override
    def reset(self) -> None:
        super().reset()
        halting = self._modules.get("halting")  # there is none yet when the weights are drawn first
        if isinstance(halting, Halting):
            halting.init()

    @property
    @override
    def blocks(self) -> list[Block]:
        """The block, once for each step."""
        return [layer for layer in self.layers if isinstance(layer, Block)] * self.config.depth

    @torch.no_grad()
    def steps(self, ids: Ids, keep: Keep | None = None) -> Tensor:
        """The number of steps (B, T) after which each position has halted; ValueError in a model without `halt`."""
        if self.halting is None:
            raise ValueError("every position has all steps in this model: set model.halt=true")
        x, verb = self._begin(ids, keep)
        return self._steps(self.halting, x, verb)

    def _steps(self, halting: Halting, x: Tensor, verb: Verb) -> Tensor:
        """The number of steps (B, T) of each position, given the embeddings x; 0 where it is dropped."""
        steps = self._ponder(halting, x, verb).steps
        return (steps if verb.keep is None else torch.where(verb.keep, steps, 0.0)).long()

    @override
    def _run_layers(self, x: Tensor, verb: Verb) -> Tensor:
        if self.halting is None:
            return super()._run_layers(x, verb)
        pondering = self._ponder(self.halting, x, verb)
        verb.add(pondering)
        return pondering.mean

    def _ponder(self, halting: Halting, x: Tensor, verb: Verb) -> Pondering:
        """All steps, in which each position halts."""
        pondering = Pondering(halting, verb.keep)
        for number, layer in enumerate(self._layers_of(verb)):
            x = pondering.take(x, layer(x, verb.call(number)))
        return pondering

    @override
    def check_exits(self) -> None:
        super().check_exits()
        if self.halting is not None:
            raise ValueError("positions of this model halt by themselves: leave exits out, or set model.halt=false")

    @property
    @override
    def loss_weights(self) -> dict[str, float]:
        return {**super().loss_weights, "ponder": self.config.ponder}

    @override
    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        total: dict[str, Tensor] = {}
        for number in range(self.config.depth):
            total = add_statistics(total, without_prefix(statistics, f"layers.{number}"))
        self.blocks[0].after_update(step, total)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        return super().cost(T, per, outputs) + self.extra_cost(T, per)

    @override
    def inner_cost(self, T: int) -> Cost:
        inner = super().inner_cost(T)
        return inner if self.halting is None else inner + self.halting.price(span(T, "sequence"))

    @override
    def extra_cost(self, T: int, per: Per) -> Cost:
        """The waves of the steps, what is added at each step, and the halting; the position has its own price."""
        config = self.config
        priced = span(T, per)
        numbers = priced.rows * config.dim
        steps = config.depth
        half = (config.dim + 1) // 2
        waves = Cost(mul=(1 + steps) * half, exp=half, other=steps * config.dim, path=("multiplication", "other"))
        added = Cost(add=numbers, path=("addition",))
        total = waves.parallel() + added.times(steps)
        if isinstance(self.position_of_tokens, EmbeddingPosition):
            total += Cost(add=(steps - 1) * numbers)  # the first one is in the price of the position
            if self.position_of_tokens.scaled and config.embed_scale:
                total += Cost(mul=numbers)
        return total if self.halting is None else total + self.halting.price(priced)

    @property
    def position_of_tokens(self) -> nn.Module | None:
        """The position that acts on the embedding in other models, and here on the input of each step."""
        return self.positions[0] if self.positions else None

    @override
    def _signals(self, time: Tensor | None) -> list[Tensor]:
        steps = torch.arange(1, self.config.depth + 1, device=self.device)
        table = self.signal(steps[None])[0].to(self.dtype)
        position = self.position_of_tokens
        if not isinstance(position, EmbeddingPosition):
            return [step.expand(1, 1, -1) for step in table]
        added = position(time).to(self.dtype)
        if position.scaled and self.config.embed_scale:
            added = added * self.config.dim**0.5
        return [added + step for step in table]


@final
class UniversalConfig(RepeatedConfig):
    """The sizes of a universal decoder and the mixer of its block."""

    kind: Literal["universal"] = "universal"
    causal: ClassVar = True

    @override
    def build(self, layers: int | None = None) -> "Universal":
        return Universal(self)


@final
class Universal(Repeated, CausalTransformer):
    """Predicts the next token at every position."""


@final
class UniversalEncoderConfig(RepeatedConfig, BidirectionalConfig):
    """The sizes of a universal encoder and the bidirectional mixer of its block."""

    kind: Literal["universal_encoder"] = "universal_encoder"
    causal: ClassVar = False

    @override
    def build(self, layers: int | None = None) -> "UniversalEncoder":
        return UniversalEncoder(self)


@final
class UniversalEncoder(Repeated):
    """Predicts the token of every position from the whole row."""

    @property
    @override
    def traits(self) -> ModelTraits:
        """It neither generates nor streams."""
        return ModelTraits(False, False, self.longest)

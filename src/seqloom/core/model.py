"""The contract of a model of any kind: what a run trains, saves, prices and generates with.

    logits = model(ids, keep)        for every kind; `traits` says what else a kind can do

Commands use this contract and no class of a kind. A method that a kind does not support raises a ValueError that names
the kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from seqloom.core.arguments import count, describe_value
from seqloom.core.cost import Cost, Per
from seqloom.core.extras import Extras
from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import ModelState

if TYPE_CHECKING:
    from seqloom.core.lookup import Lookup
    from seqloom.core.model_config import ModelConfig


Enough: TypeAlias = Callable[[Tensor, Tensor], bool]
"""given the stream (B, D) before and after a layer: whether later layers can be left out"""


@final
@dataclass(frozen=True)
class ModelTraits:
    """What a model can do."""

    generates: bool
    """whether it predicts the next token from those before it, and so can generate text"""
    streams: bool
    """whether it can continue from a state: `start`, `extend`, `step`"""
    longest: int | None
    """the longest text in tokens that it reads from its start; None for any"""
    translates: bool = False
    """whether it generates a target for a source, from the state that `begin` returns"""


class Model(nn.Module, ABC):
    """A model of any kind. `forward` changes no parameter and no buffer."""

    config: "ModelConfig"
    layers: nn.ModuleList
    """the repeated layers, if there are any; in a model that was built with fewer `layers`, only the first of them"""
    tokenizer: Any = None
    """the tokenizer, if there is one"""
    lookup: "Lookup | None" = None
    """finds similar contexts, where `config.looks_up`"""

    @property
    @abstractmethod
    def traits(self) -> ModelTraits:
        """What the model can do."""

    @property
    def mixers(self) -> list[Mixer]:
        """The mixer of each layer, in order; by default there are none."""
        return []

    @property
    def sublayers(self) -> list[Mixer]:
        """All sublayers in order: of each layer its mixer and what follows it; by default there are none."""
        return []

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """The weights of the auxiliary losses in training, by name; 1 for a name that is missing."""
        return {}

    @property
    def key_norm(self) -> nn.Module:
        """The norm whose output is the key of a token in a store: see `seqloom.retrieval.keys`."""
        self._lacks("give keys")

    @abstractmethod
    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        """Logits (B, T, W) of ids (B, T). Where `keep` is False they are 0, and no other position changes."""

    def forward_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Logits, Extras]:
        """`forward`, and the auxiliary losses and statistics of the pass; by default there are none."""
        return self(ids, keep), Extras()

    def loss_with_extras(
        self, ids: Ids, targets: Ids, keep: Keep | None = None, **read: Any
    ) -> tuple[Float[Tensor, ""], Extras]:
        """The mean loss in nats of the tokens after each position, `targets` (B, T), in float32 at least, and extras.

        Positions where `keep` is False are not read and have no loss. `read` are further arguments of
        `forward_with_extras`, such as the neighbors of each token. A model whose logits need not be in memory together
        has a way of its own.
        """
        logits, extras = self.forward_with_extras(ids, keep, **read)
        if keep is not None:
            logits, targets = logits[keep][None], targets[keep][None]
        wide = logits.to(torch.promote_types(logits.dtype, torch.float32))
        return cross_entropy(wide.flatten(0, 1), targets.flatten()), extras

    def extend_loss(
        self, ids: Ids, targets: Ids, state: ModelState, keep: Keep | None = None
    ) -> tuple[Float[Tensor, ""], ModelState, Extras]:
        """As `loss_with_extras`, of a piece (B, T) that follows `state`, and the state after it."""
        self._lacks("be trained in pieces")

    def features(self, ids: Ids, keep: Keep | None = None) -> Stream:
        """The stream (B, T, D) after the last layer: what `logits` reads."""
        self._lacks("give features")

    def features_with_extras(self, ids: Ids, keep: Keep | None = None) -> tuple[Stream, Extras]:
        """`features`, and the auxiliary losses and statistics of the pass."""
        self._lacks("give features")

    def logits(self, x: Stream, keep: Keep | None = None) -> Logits:
        """The output layer applied to features (B, T, D), of all positions or of some."""
        self._lacks("give features")

    @property
    def uncaptured_reason(self) -> str:
        """Why a training step cannot be recorded as a CUDA graph, in a few words; by default "": it can.

        Reasons of single mixers are theirs.
        """
        return ""

    def recompute_layers(self, on: bool = True) -> None:
        """From now on keeps of each layer only its input, and computes it again in the backward; `on` False ends it.

        Outputs and gradients do not change. ValueError where the layers are recomputed already.
        """
        self._lacks("compute its layers again in the backward")

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after optimizer step `step`, from 1, with the sums of its passes' statistics. By default nothing."""

    def fit(self, batch: Mapping[str, Tensor]) -> Tensor | None:
        """Learns from a batch in place of its loss, gradient and update: where `config.fits`, training calls it.

        `batch` is the objective's, on the model's device: for next_token `ids` (B, T + 1), in the order of the text.
        Every batch of a pass over the text comes once; the last may have fewer rows. What is learned lies in buffers,
        which checkpoints hold; what needs a whole pass is collected there and applied by `end_pass`. Returns the mean
        loss of the batch in nats before it was learned, a scalar, or None where it is not computed.
        """
        self._lacks("learn without gradients")

    def end_pass(self) -> bool:
        """Applies what `fit` collected in this pass; returns True where a further pass would change nothing."""
        self._lacks("learn without gradients")

    @abstractmethod
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of one row of T tokens, or of the token at position T alone.

        The output layer is priced for `outputs` positions, by default for all. The model may be on the meta device.
        TypeError or ValueError for a T, `per` or `outputs` that is not valid.
        """

    def inner_cost(self, T: int) -> Cost:
        """The price of one row of T tokens without the embeddings and the head: of the layers and the norms."""
        return self.cost(T)

    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The state of `batch` rows before the first token; entries that grow have room for `capacity` tokens."""
        self._lacks("read on from a state")

    def begin(self, source: Ids, keep: Keep | None = None) -> ModelState:
        """The state before the first token of a target, given sources (B, S), of a model with `traits.translates`."""
        self._lacks("translate a source", kind="seq2seq")

    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        """Logits (B, T, W) of a piece (B, T) that follows `state`, and the state after it."""
        self._lacks("read on from a state")

    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `extend`, with features (B, T, D) in place of logits, for callers that want logits of few positions."""
        self._lacks("read on from a state")

    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        """Logits of the token after `ids`, one token per row, and the state after it.

        With `reuse` the given state may be overwritten, and the caller must not use it again.
        """
        self._lacks("read on from a state")

    def step_until(
        self, ids: Int[Tensor, " B"], state: ModelState, enough: Enough, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState, int]:
        """As `step`, but it leaves out all layers after the first where `enough` is True; also returns how many it ran.

        `enough` is called after each layer but the last. The states of the layers that are left out read the stream
        as it is after the last layer that ran (`seqloom.models.exits`).
        """
        self._lacks("leave layers out")

    def check_exits(self) -> None:
        """Raises ValueError where tokens cannot leave the model after one of its layers."""
        self._lacks("leave layers out")

    def exits(self, ids: Ids, keep: Keep | None = None) -> tuple[list[Stream], Extras]:
        """The stream (B, T, D) after each layer, as `exit_logits` takes it, and the extras of the pass."""
        self._lacks("leave layers out")

    def exits_at(self, ids: Ids, layers: Int[Tensor, "B T"], keep: Keep | None = None) -> tuple[Stream, Extras]:
        """The stream (B, T, D) in which each token is taken after its layer in `layers` (B, T), counted from 1.

        Later layers read such a token unchanged.
        """
        self._lacks("leave layers out")

    def exit_logits(self, x: Stream, layer: int) -> Logits:
        """Logits of the stream (B, T, D) after layer `layer`, counted from 1."""
        self._lacks("leave layers out")

    def reserve(self, state: ModelState, tokens: int) -> ModelState:
        """The same state with room for `tokens` more tokens, so that no step of them changes a shape.

        By default the state itself, which does not grow.
        """
        count("tokens", tokens)
        return state

    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused slots, ready to be saved."""
        self._lacks("read on from a state")

    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens."""
        self._lacks("read on from a state")

    def take_windows(self, config: "ModelConfig") -> None:
        """Takes the windows of `config`, which differs from the model's settings in nothing else; weights stay."""
        self._lacks("be trained with windows that change")

    def take_vectors(self, vectors: Float[Tensor, "W D"]) -> None:
        """Replaces the initial embeddings of the tokens by `vectors`."""
        self._lacks("begin with vectors of words")

    def take_lookup(self, lookup: "Lookup") -> None:
        """Sets the lookup that finds similar contexts, where `config.looks_up`; it is not part of the weights."""
        self._lacks("look up in a store", kind="spalm")

    def rebuild_with(self, config: "ModelConfig") -> "Model":
        """A model of other settings with these weights, and the lookup and the mode of this model.

        TypeError for settings of another kind of model, ValueError where the weights do not fit.
        """
        if not isinstance(config, type(self.config)):
            raise TypeError(f"config must be settings of a {self.config.kind} model, not {describe_value(config)}")
        weights = self.state_dict()
        with torch.device("meta"):
            expected = config.build().state_dict()
        if _shapes(expected) != _shapes(weights):
            raise ValueError(f"the weights of this {self.config.kind} model do not fit a model of these settings")
        other = config.build()
        other.load_state_dict(weights)
        if self.lookup is not None:
            other.take_lookup(self.lookup)
        return other.to(self.device, self.dtype).train(self.training)

    @property
    def device(self) -> torch.device:
        """The device of the parameters and buffers."""
        return next(chain(self.parameters(), self.buffers())).device

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the first parameter, or of the first floating-point buffer where there are no parameters."""
        tensors = chain(self.parameters(), self.buffers())
        return next((tensor.dtype for tensor in tensors if tensor.is_floating_point()), torch.float32)

    def _lacks(self, verb: str, kind: str = "decoder") -> NoReturn:
        raise ValueError(f"a model of kind {self.config.kind} cannot {verb}: use one of model.kind={kind}")


def require_model(model: Any) -> None:
    """Raises TypeError unless `model` is a Model."""
    if not isinstance(model, Model):
        raise TypeError(f"model is one that seqloom.decoder or seqloom.load gives, not {describe_value(model)}")


def require_streams(model: Any, verb: str = "read on from a state") -> None:
    """Raises TypeError unless `model` is a Model, and ValueError where it cannot continue from a state."""
    require_model(model)
    if not model.traits.streams:
        stateless = ", ".join(dict.fromkeys(mixer.kind for mixer in model.config.mixers if not mixer.traits.streams))
        raise ValueError(f"the model cannot {verb}: no state in {stateless or f'a model of kind {model.config.kind}'}")


def require_generates(model: Any, verb: str = "generate text") -> None:
    """Raises TypeError unless `model` is a Model, and ValueError where its kind does not predict the next token."""
    require_model(model)
    if not model.traits.generates:
        raise ValueError(f"a model of kind {model.config.kind} cannot {verb}: use one of model.kind=decoder")


def require_translates(model: Any) -> None:
    """Raises TypeError unless `model` is a Model, and ValueError where it cannot generate a target for a source."""
    require_model(model)
    if not model.traits.translates:
        stateless = ", ".join(dict.fromkeys(mixer.kind for mixer in model.config.mixers if not mixer.traits.streams))
        reason = f"no state in {stateless}" if model.config.objective == "pairs" else "use one of model.kind=seq2seq"
        raise ValueError(f"a model of kind {model.config.kind} cannot translate a source: {reason}")


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {name: tensor.shape for name, tensor in tensors.items()}

"""What models share that are counted instead of trained by gradients: their verbs, and a state outside of layers."""

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core import state_spec
from seqloom.core.arguments import mask
from seqloom.core.model import Model, ModelTraits
from seqloom.core.shapes import Ids, Keep, Logits
from seqloom.core.state import Entries, ModelState, State, bound_state, length_of
from seqloom.core.state_spec import StateSpec
from seqloom.models import arguments


class CountedModel(Model, ABC):
    """Predicts the next token by tables (buffers) that `fit` and `end_pass` fill.

    A subclass gives `state_spec`, `advance` and `predict`; the checks of arguments, the verbs and the length are here.
    """

    @property
    @override
    def traits(self) -> ModelTraits:
        return ModelTraits(generates=True, streams=True, longest=None)

    @property
    @abstractmethod
    def state_spec(self) -> StateSpec:
        """The entries of the state, without its length."""

    @abstractmethod
    def advance(self, ids: Ids, real: Bool[Tensor, "B T"], state: State) -> tuple[Tensor, Entries]:
        """What `predict` needs at each position, (B, T, …), and the state's entries after the last token.

        Tokens that are not `real` change neither the entries nor what later positions get.
        """

    @abstractmethod
    def predict(self, x: Tensor) -> Logits:
        """Log probabilities (B, T, W) of the token after each position, from what `advance` gave."""

    @override
    def forward(self, ids: Ids, keep: Keep | None = None) -> Logits:
        return self.logits(self.features(ids, keep), keep)

    @override
    def features(self, ids: Ids, keep: Keep | None = None) -> Tensor:
        """What `advance` gives at each position, (B, T, …)."""
        return self.read(ids, self.start(len(ids)), keep)[0]

    @override
    def logits(self, x: Tensor, keep: Keep | None = None) -> Logits:
        logits = self.predict(x)
        return logits if keep is None else torch.where(keep[:, :, None], logits, 0.0)

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        arguments.check_start(batch, capacity)
        return ModelState((), state_spec.start(self.state_spec, batch, 0, self.dtype, self.device))

    @override
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Logits, ModelState]:
        x, state = self.read(ids, state, keep)
        return self.logits(x, keep), state

    @override
    def read(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Tensor, ModelState]:
        arguments.check_ids(ids, 2, self.device)
        arguments.check_range(ids, self.config.vocab)
        if keep is not None:
            mask(keep, ids)
        arguments.check_state(state, len(ids), ())
        state_spec.check(self.state_spec, state.extra, len(ids), self.dtype, self.device)
        real = torch.ones_like(ids, dtype=torch.bool) if keep is None else keep
        x, entries = self.advance(ids, real, state.extra)
        length = length_of(bound_state(state.extra))
        new_length = length.after(real.sum(1), ids.shape[1], even=keep is None)
        return x, ModelState((), State({**entries, "length": new_length.tokens}, new_length.bound, new_length.even))

    @override
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        arguments.check_ids(ids, 1, self.device)
        arguments.check_flag("reuse", reuse)
        logits, state = self.extend(ids[:, None], state)
        return logits[:, 0], state

    @override
    def trim(self, state: ModelState) -> ModelState:
        arguments.check_state(state, None, ())
        return state._replace(extra=state_spec.trim(self.state_spec, state.extra))

    @override
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        arguments.check_state(state, None, ())
        return state._replace(extra=state_spec.crop(self.state_spec, state.extra, tokens))

"""The contract of a lookup: a frozen model reads the same text and finds what followed similar contexts in a store.

A model whose kind uses a store (`ModelConfig.looks_up`) is given a lookup (`Model.take_lookup`) and calls it wherever
the caller does not pass the tokens that followed. The lookup is not part of the model's weights; its state is part of
the model's state.
"""

from abc import ABC, abstractmethod
from typing import TypeAlias

from jaxtyping import Int
from torch import Tensor

from seqloom.core.cost import Cost, Per
from seqloom.core.model import ModelTraits
from seqloom.core.shapes import Ids, Keep
from seqloom.core.state import ModelState

Followed: TypeAlias = Int[Tensor, "B T k"]
"""for each token read, the k tokens that followed the most similar contexts in the store; -1 where fewer were found"""


class Lookup(ABC):
    """Finds what followed similar contexts, for the tokens that a model reads; on its device, without gradients."""

    @property
    @abstractmethod
    def traits(self) -> ModelTraits:
        """What the frozen model can do."""

    @abstractmethod
    def read(self, ids: Ids, keep: Keep | None = None) -> Followed:
        """The tokens that followed contexts similar to those of ids (B, T); -1 where `keep` is False."""

    @abstractmethod
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The frozen model's state before the first token."""

    @abstractmethod
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Followed, ModelState]:
        """As `read`, of a piece that follows `state`; returns the state after it too."""

    @abstractmethod
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Int[Tensor, "B k"], ModelState]:
        """As `extend`, of one token per row. With `reuse` the given state may be overwritten."""

    @abstractmethod
    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room."""

    @abstractmethod
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens."""

    @abstractmethod
    def cost(self, T: int, per: Per, outputs: int) -> Cost:
        """The price of reading a row of T tokens, or the token at position T, with a search for `outputs` of them.

        It has no parameters, since nothing of it is trained.
        """

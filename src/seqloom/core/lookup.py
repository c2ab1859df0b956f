"""The contract of a lookup: a frozen model that reads along and says what followed where it read something similar.

A model of a kind that looks up (`ModelConfig.looks_up`) takes one (`Model.take_lookup`) and calls it wherever what
followed is not given. The lookup has no part in the model's weights; its state lies in the model's state.
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
"""of each token that was read, the k tokens that followed the most similar contexts; -1 where fewer were found"""


class Lookup(ABC):
    """Reads what the model reads, on the model's device, without gradients."""

    @property
    @abstractmethod
    def traits(self) -> ModelTraits:
        """What the frozen model can do."""

    @abstractmethod
    def read(self, ids: Ids, keep: Keep | None = None) -> Followed:
        """What followed contexts like those of ids (B, T); -1 where `keep` is False."""

    @abstractmethod
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        """The frozen model's state before the first token."""

    @abstractmethod
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Followed, ModelState]:
        """As `read`, of a further piece; and the state after it."""

    @abstractmethod
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Int[Tensor, "B k"], ModelState]:
        """As `extend`, of one token per row; with `reuse` the given state is given up."""

    @abstractmethod
    def trim(self, state: ModelState) -> ModelState:
        """The same state, contiguous and without unused room."""

    @abstractmethod
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        """The state after the first `tokens` tokens."""

    @abstractmethod
    def cost(self, T: int, per: Per, outputs: int) -> Cost:
        """The price of reading a row of T tokens, or the token at T, and of the search of `outputs` of them.

        Nothing of it is trained: it has no parameters.
        """

"""What the training loop asks of a model and of its batches: more than a decoder and a text can be trained by it."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from jaxtyping import Int
from torch import Tensor, nn

from seqloom.core.extras import Extras
from seqloom.core.mixer import Mixer


class Learner(Protocol):
    """A model that says, for ids (B, T), the logits (B, T, W) of what comes next."""

    @property
    def token(self) -> nn.Embedding:
        """The embedding of tokens, whose device is the model's."""

    @property
    def halves(self) -> Sequence[Mixer]:
        """Its mixers and what follows them, which are asked for their wishes."""

    @property
    def loss_weights(self) -> Mapping[str, float]:
        """What each auxiliary loss is multiplied by; 1 for a name that is not there."""

    def __call__(self, ids: Tensor) -> Any:
        """The logits."""

    def forward_with_extras(self, ids: Tensor) -> tuple[Any, Extras]:
        """The logits, the auxiliary losses and the statistics."""

    def after_update(self, step: int, statistics: Mapping[str, Tensor]) -> None:
        """Called after each optimizer step with the sums of its statistics."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """As `nn.Module` has them."""

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """As `nn.Module` has them."""

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """As `nn.Module` has them."""


class Batches(Protocol):
    """A source of batches, each a function of its step."""

    def batch(self, step: int, batch: int) -> Int[Tensor, "B ..."]:
        """Of one step, counted from 0: inputs are [:, :-1], targets [:, 1:]."""

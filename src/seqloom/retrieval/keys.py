"""The key of a token: the input of the last feed-forward network, after its norm.

Where no such network follows the last mixer, as in Mamba, the key is the output of the model's last norm.
"""

from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.core.state import ModelState


def key_width(model: Model) -> int:
    """The number of channels of a model's keys."""
    gain = model.key_norm.weight
    assert isinstance(gain, Tensor), "every norm has a gain"
    return len(gain)


@final
class Keys:
    """Holds the keys of the tokens that a model read last; a hook on the model records them until `close`."""

    def __init__(self, model: Model) -> None:
        self._norm = model.key_norm
        self._latest: Tensor | None = None
        self._handle = self._norm.register_forward_hook(self._record)

    def close(self) -> None:
        """Removes the hook from the model."""
        self._handle.remove()

    def read(self, model: Model, ids: Ids, keep: Keep | None = None) -> Stream:
        """The keys (B, T, D) of ids (B, T); the output layer is not computed."""
        self._latest = None
        return self._of(model.features(ids, keep))

    def extend(self, model: Model, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `read`, for a piece after `state`; also returns the model's state after it."""
        self._latest = None
        x, state = model.read(ids, state, keep)
        return self._of(x), state

    def _of(self, x: Stream) -> Stream:
        """The keys of the tokens that were just read, whose features are x (B, T, D).

        If the norm belongs to the output layer, the hook has not run, and the keys are the norm of x.
        """
        keys: Tensor = self._norm(x) if self._latest is None else self._latest
        return keys

    @property
    def latest(self) -> Float[Tensor, "*rows D"]:
        """Keys of the tokens that the model read last: (B, T, D), or (B, D) of a step."""
        assert self._latest is not None, "the model has read nothing yet"
        return self._latest

    @property
    def last_token(self) -> Float[Tensor, "B D"]:
        """The keys of each row's last token."""
        keys = self.latest
        return keys[:, -1] if keys.ndim == 3 else keys

    def _record(self, norm: nn.Module, inputs: Any, output: Tensor) -> None:
        self._latest = output.detach()

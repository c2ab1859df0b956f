"""The key of a token: what the last feed-forward network reads of it, after its norm.

Where no such network follows the last mixer, as in Mamba, the key is the output of the model's last norm.
"""

from typing import Any, final

from jaxtyping import Float
from torch import Tensor, nn

from seqloom.core.model import Model
from seqloom.core.shapes import Ids, Keep, Stream
from seqloom.core.state import ModelState


@final
class Keys:
    """Holds the keys of what a model read last, until `close`."""

    def __init__(self, model: Model) -> None:
        self._norm = model.key_norm
        self._latest: Tensor | None = None
        self._handle = self._norm.register_forward_hook(self._record)

    def close(self) -> None:
        """Detaches it from the model."""
        self._handle.remove()

    def read(self, model: Model, ids: Ids, keep: Keep | None = None) -> Stream:
        """The keys (B, T, D) of ids (B, T), without the output layer."""
        self._latest = None
        return self._of(model.features(ids, keep))

    def extend(self, model: Model, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Stream, ModelState]:
        """As `read`, of a further piece; and the model's state after it."""
        self._latest = None
        x, state = model.read(ids, state, keep)
        return self._of(x), state

    def _of(self, x: Stream) -> Stream:
        """The keys of what was just read, x (B, T, D) of it: its norm, where only the output layer has one."""
        keys: Tensor = self._norm(x) if self._latest is None else self._latest
        return keys

    @property
    def latest(self) -> Float[Tensor, "*rows D"]:
        """Keys of the tokens that the model read last: (B, T, D), or (B, D) of a step."""
        assert self._latest is not None, "the model has read nothing yet"
        return self._latest

    @property
    def newest(self) -> Float[Tensor, "B D"]:
        """The keys of each row's last token."""
        keys = self.latest
        return keys[:, -1] if keys.ndim == 3 else keys

    def _record(self, norm: nn.Module, inputs: Any, output: Tensor) -> None:
        self._latest = output.detach()

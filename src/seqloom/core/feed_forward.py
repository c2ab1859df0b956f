"""The settings of the second sublayer of a layer: its kind, its width and what a kind adds; and their old names.

    model.ffn={kind: ffn, width: 344, activation: silu, gated: true, bias: false}      of all layers, or a list

Each kind is a class in `seqloom.models.ffn_kinds`. Before, `model.ffn` was the width, and the other settings lay next
to it (`OLD_NAMES`). Runs are stored by the old names wherever these can say it, so that no identity changed; they are
read by either, here and on the command line (`seqloom.training.preset`). This module needs no torch.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field

from seqloom.core.config import Config

if TYPE_CHECKING:
    from seqloom.core.mixer import Mixer

OLD_NAMES = {
    "ffn": "width",
    "channel": "kind",
    "activation": "activation",
    "glu": "gated",
    "ffn_bias": "bias",
    "ffn_chunk": "chunk",
}
"""a setting of a model as it was named before, and what it is now in `model.ffn`"""
WIDEST = 2**20
KIND = "ffn"
"""the kind where none is named"""
OF_KIND = ("activation", "gated", "bias", "chunk")
"""settings of that kind alone"""


class FeedForwardConfig(Config, ABC):
    """The settings of one kind."""

    kind: str
    width: int = Field(
        512, ge=1, le=WIDEST, description="hidden width of the feed-forward network, or of the sublayer in its place"
    )
    reads_back: ClassVar[bool] = False
    """whether it reads earlier tokens"""
    causal_only: ClassVar[bool] = False
    """whether it has no bidirectional form"""
    is_none: ClassVar[bool] = False
    """whether no sublayer follows the mixer"""

    @property
    def held_numbers(self) -> int:
        """The numbers of the hidden layer of a token that the backward needs."""
        return self.width

    @abstractmethod
    def build(self, dim: int, causal: bool, layer: int, depth: int) -> "Mixer | None":
        """The sublayer of layer `layer` of `depth`, if there is one."""


def require_own(kind: str, values: Mapping[str, Any]) -> None:
    """Raises ValueError where another kind is given a setting of the feed-forward network."""
    given = [name for name in OF_KIND if name in values]
    if given and kind != KIND:
        raise ValueError(f"{given[0]} is of the feed-forward network, and ffn.kind={kind} has none")


def by_new_names(model: Mapping[str, Any]) -> dict[str, Any]:
    """A model's plain values with the old names of the second sublayer's settings replaced.

    ValueError where an old name is of another kind than the one that is given.
    """
    old = {new: model[name] for name, new in OLD_NAMES.items() if name in model and not _is_new(name, model[name])}
    if not old:
        return dict(model)
    others = {name: value for name, value in model.items() if name not in OLD_NAMES}
    given = model.get("ffn")
    if isinstance(given, list | tuple):
        raise ValueError("model.ffn is a list, whose entries have all settings: leave channel, activation, … out")
    before = given if isinstance(given, Mapping) else {}
    return {**others, "ffn": {"kind": KIND, **before, **old}}


def new_path(path: list[str], value: Any) -> list[str]:
    """Where a value of a run's settings lies now, given the path that it may have had before."""
    if len(path) != 2 or path[0] != "model" or path[1] not in OLD_NAMES or _is_new(path[1], value):
        return path
    return ["model", "ffn", OLD_NAMES[path[1]]]


def by_old_names(ffn: Mapping[str, Any]) -> dict[str, Any]:
    """A model's plain values for these of `model.ffn`, by the old names; what is at its default is left out."""
    old = {name: ffn[new] for name, new in OLD_NAMES.items() if new in ffn}
    if old.get("channel") == KIND:
        del old["channel"]
    return old


def _is_new(name: str, value: Any) -> bool:
    """Whether this is `ffn` as it is now, with its settings."""
    return name == "ffn" and not isinstance(value, int | float | str | None)

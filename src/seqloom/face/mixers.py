"""Mixers by their names: `seqloom.mixer` and `seqloom.list_mixers`."""

from numbers import Integral
from typing import Any

from torch import nn

from seqloom.core.mixer import Mixer, Traits
from seqloom.face.build import build_checked
from seqloom.mixers import kinds, mixer_config

LARGEST = {"dim": 2**17, "context": 2**24}
"""the largest sizes of a mixer, as of `DecoderConfig`"""


def list_mixers() -> dict[str, Traits]:
    """Every mixer by name, with what it can do."""
    return {name: config.traits for name, config in kinds().items()}


def mixer(
    kind: str | type[nn.Module], *, dim: int, context: int | None = None, causal: bool = True, **settings: Any
) -> Mixer:
    """A mixer for `dim` channels that looks back on `context` tokens: an nn.Module, (B, T, D) → (B, T, D).

    `kind` is a mixer's name, or any layer of yours: its class, or its name as "my.py:Layer" or "package.module:Layer".
    With `causal=False` its bidirectional form, which reads whole sequences; ValueError where it has none.
    `settings` are the mixer's own, such as heads=32 for attention. ValueError, with a suggestion, for unknown ones;
    ValueError or TypeError, too, for sizes that are none or do not fit into the memory.
    """
    _require_size("dim", dim)
    if context is not None:
        _require_size("context", context)
    config = mixer_config({"kind": kind, **settings})
    return build_checked(lambda: config.build(dim, context, causal))


def _require_size(name: str, size: Any) -> None:
    """Raises ValueError unless a size is a whole number from 1 to `LARGEST`."""
    if isinstance(size, bool) or not isinstance(size, Integral) or int(size) < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, not {size!r}")
    if int(size) > LARGEST[name]:
        raise ValueError(f"{name} must be at most {LARGEST[name]}, not {size!r}")

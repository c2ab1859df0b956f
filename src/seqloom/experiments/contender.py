"""A model of a comparison by its name, `KIND` or `KIND:NAME=VALUE,…`. Needs no torch."""

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True)
class Contender:
    """One model of a comparison: what its folder and its row are called, and the settings that make it."""

    name: str
    changes: tuple[str, ...]
    beside: str | None = None
    """the name of the contender that it was sized for"""
    matched: str | None = None
    """what was changed for that, in words"""


def contender(text: str) -> Contender:
    """Reads `KIND` or `KIND:NAME=VALUE,NAME=VALUE`, as `attention:heads=32`."""
    kind, _, rest = text.partition(":")
    settings = [entry for entry in rest.split(",") if entry]
    if not kind or any("=" not in entry for entry in settings):
        raise ValueError(f"a contender is KIND or KIND:NAME=VALUE,…, as attention:heads=32, not {text!r}")
    changes = (f"model.mixer.kind={kind}", *(f"model.mixer.{entry}" for entry in settings))
    return Contender("-".join([kind, *settings]), changes)

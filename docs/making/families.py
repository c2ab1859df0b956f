"""The mixers by family, as `seqloom list` has them, under the title of each family's folder."""

import re
from importlib import import_module

from seqloom.cli import registry


def families() -> dict[str, list[str]]:
    """The kinds of each family, in the order of registration."""
    members: dict[str, list[str]] = {}
    for kind, mixer in registry.mixers().items():
        members.setdefault(mixer["family"], []).append(kind)
    return {title(family): kinds for family, kinds in members.items()}


def title(family: str) -> str:
    """The docstring of a family's folder, up to its first punctuation mark."""
    about = import_module(f"seqloom.mixers.{family}").__doc__ or family
    return re.split(r"[:,.]", about)[0]

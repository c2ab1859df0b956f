"""What a family of models of transformers is to seqloom: settings of ours, and a table of names."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias, final

from seqloom.models.foreign.parts import Part
from seqloom.models.foreign.values import Values


@final
@dataclass(frozen=True)
class Foreign:
    """A model of another program, as one of ours."""

    settings: dict[str, Any]
    """the settings of our model"""
    parts: list[Part]
    """a line for each parameter of ours"""
    without_weights: str = r"$^"
    """a regular expression of the names of theirs that hold nothing learned, such as masks"""
    prefix: str = ""
    """what all names of theirs begin with where the file is of the whole model, and lack where it is of its body"""


Reader: TypeAlias = Callable[[Values], Foreign]
"""from a config.json to the model. ValueError for a setting that is not built"""

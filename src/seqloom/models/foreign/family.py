"""What a family of models of transformers is to seqloom: a reader and a writer of settings, and a table of names."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias, final

from seqloom.models.decoder import DecoderConfig
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
    older: dict[str, str] = field(default_factory=dict)
    """ends of names, and how they end in older files"""


Reader: TypeAlias = Callable[[Values], Foreign]
"""from a config.json to the model. ValueError for a setting that is not built"""
Writer: TypeAlias = Callable[[DecoderConfig], dict[str, Any]]
"""from the settings of a model to a config.json, which is then read back and compared.

ValueError, in one line, for a model that has no such parts; what only differs in a number or a choice is found by the
comparison.
"""


@final
@dataclass(frozen=True)
class Family:
    """How models of one `model_type` are read and written."""

    models: str
    """models of this family, for readers"""
    read: Reader
    write: Writer | None = None
    """None where only a folder of the family itself is written back, by its own config.json"""
    architecture: str = ""
    """the class of transformers that computes the model"""
    refused: str = ""
    """settings that are not built, for readers"""
    one_way: bool = False
    """whether what was read cannot be written back"""
    pickled: str = ""
    """a pattern of pickles that are read where there are no safetensors; none for families that have these"""

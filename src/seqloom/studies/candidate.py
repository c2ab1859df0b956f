"""A model of a comparison by its name, `KIND`, `RECIPE` or `KIND:NAME=VALUE,…`. This module needs no torch.

contender("attention:heads=32")     this mixer in the model of the preset
contender("my.py:Layer")            this layer in its place: any class from (B, T, D) to (B, T, D)
contender("mamba/small")            the whole model of this recipe, with the data, context and training of the preset
contender("ngram/kneser_ney")       a model of counts, without settings of layers and gradients
preset_of(["he", "llama/small"])    the preset: the first named recipe whose model is trained by gradients
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

from seqloom.core.named_object import is_named_object, short_name
from seqloom.core.settings_text import split_settings
from seqloom.training.preset import GRADIENTS, counts
from seqloom.training.recipes import RECIPES

PRESET = "paper/small"
"""the preset where no contender is a recipe"""
YAML = (".yaml", ".yml")
FORM = ("a contender", "attention:heads=32")
"""what a text is, and an example, in errors"""


@final
@dataclass(frozen=True)
class Candidate:
    """A model of a comparison: its name, which is that of its folder and row, and its changes of the preset."""

    name: str
    changes: tuple[str, ...]
    matched_to: str | None = None
    """the name of the contender that it was resized to equal"""
    matched: str | None = None
    """the change of its size, in words"""
    counting: bool = False
    """whether its model is trained by counting, without gradients"""
    kind: str = ""
    """the kind of its mixer, or its recipe, as it was named"""

    def fitting(self, changes: Sequence[str]) -> list[str]:
        """Those of the changes that apply to this model; a model of counts has no layers and no gradients."""
        if not self.counting:
            return list(changes)
        return [change for change in changes if not _needs_gradients(change)]


def parse_candidate(text: str) -> Candidate:
    """Parses `KIND`, a recipe's name or a .yaml file; a kind may have settings, as in `attention:heads=32`."""
    kind, settings = split_settings(text, *FORM)
    model_change = f"model={kind}" if _is_recipe(kind) else f"model.mixer.kind={kind}"
    name = Path(kind).stem if kind.endswith(YAML) else kind.replace("/", "-")
    name = short_name(kind) if is_named_object(kind) else name
    counting = _is_recipe(kind) and counts(kind)
    section = "model" if counting else "model.mixer"
    changes = (model_change, *(f"{section}.{setting}" for setting in settings))
    return Candidate("-".join([name, *settings]), changes, counting=counting, kind=kind)


def preset_of(texts: Sequence[str]) -> str:
    """The first recipe among the contenders, whose data, context, batches and schedule all use; else `PRESET`."""
    kinds = (split_settings(text, *FORM)[0] for text in texts)
    return next((kind for kind in kinds if _is_recipe(kind) and not counts(kind)), PRESET)


def _needs_gradients(change: str) -> bool:
    """Whether a change, SECTION.NAME=VALUE, is of a setting of layers or of training by gradients."""
    section, _, path = change.partition("=")[0].partition(".")
    name = path.partition(".")[0]
    return (section == "model" and name != "context") or (section == "training" and name in GRADIENTS)


def _is_recipe(kind: str) -> bool:
    return kind in RECIPES or (not is_named_object(kind) and ("/" in kind or kind.endswith(YAML)))

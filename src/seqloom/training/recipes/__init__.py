"""Recipes: the settings of a run by name, a YAML file each with the source of every setting. Needs no torch.

recipe("llama/small")          the contents of llama/small.yaml next to this file
"""

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any, Final

from seqloom.core.config import suggestion
from seqloom.core.yaml_text import parse_yaml

FOLDER: Final = Path(__file__).parent
RECIPES: Final = tuple(sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.yaml")))
"""the names of all recipes"""


def recipe(name: str) -> dict[str, Any]:
    """The settings of a recipe, free to be changed. ValueError for an unknown one, with a suggestion."""
    if name not in RECIPES:
        raise ValueError(f"unknown preset {name!r}, and no .yaml file; {suggestion(name, RECIPES)}")
    return deepcopy(_parse_recipe(name))


@cache
def _parse_recipe(name: str) -> dict[str, Any]:
    values: dict[str, Any] = parse_yaml((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return values

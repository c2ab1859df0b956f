"""The contents of registry.json, from the classes: mixers with settings, traits and sources, and a run's settings.

    python -m seqloom.cli.described        writes registry.json, which everything that must not load torch reads

A mixer that was registered in this process is described in the same way.
"""

import inspect
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import to_jsonable_python

from seqloom.runs.durable import replace_text

PATH = Path(__file__).with_name("registry.json")
WIDEST = 40
"""characters of a summary"""
DIM, CONTEXT = 128, 128
"""the sizes that a mixer is priced at"""
DRAWN = 24
"""positions of a drawn pattern"""
COUNTED = ("total", "params", "state")
BOUNDS = ("ge", "gt", "le", "lt", "multiple_of", "min_length")
PLAIN: dict[type, str] = {int: "int", float: "float", bool: "bool", str: "str", NoneType: "null"}


def registry() -> dict[str, Any]:
    """The contents of registry.json, with our own mixers alone. Imports torch, which the classes need."""
    from seqloom.mixers import kinds
    from seqloom.training.config import RunConfig

    configs = {name: config for name, config in kinds().items() if config.__module__.startswith("seqloom.mixers.")}
    return {"mixers": {name: describe_kind(config) for name, config in configs.items()}, "run": settings(RunConfig)}


def text() -> str:
    """registry.json as it is written."""
    contents = registry()
    mixers = [f"{_line(name)}: {_line(entry)}" for name, entry in contents["mixers"].items()]
    sections = [_line(section) for section in contents["run"]]
    return "\n".join(['{"mixers": {', ",\n".join(mixers), '}, "run": [', ",\n".join(sections), "]}", ""])


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def describe_kind(config: type[Any]) -> dict[str, Any]:
    """The entry of one kind of mixer, from the class of its settings."""
    document = sys.modules[config.__module__].__doc__ or ""
    about, _, own = inspect.cleandoc(config.__doc__ or "").partition("\n\n")
    about = " ".join(about.split())
    equation, source = _equation_and_source(document)
    if own.startswith("    "):  # one of several kinds of a file, whose equation is not that of all
        equation = own
    return {
        "family": _family(config.__module__),
        "summary": summary(about),
        "about": about,
        "equation": equation,
        "source": source,
        "traits": asdict(config.traits),
        "settings": _without_kind(settings(config)),
        "price": _price(config),
        **({"patterns": patterns} if (patterns := _patterns(config)) else {}),
    }


def summary(about: str) -> str:
    """The first sentence in at most `WIDEST` characters: whole, or its first clause, or its first words."""
    sentence = about.split(". ", maxsplit=1)[0].removesuffix(".")
    for part in (sentence, sentence.split(": ")[0], sentence.split(", ")[0]):
        if len(part) <= WIDEST:
            return part
    return sentence[: WIDEST - 1].rsplit(" ", 1)[0] + "…"


def settings(config: type[BaseModel]) -> list[dict[str, Any]]:
    """The settings of a config class, in order, each with its nested settings."""
    return [_setting(name, field, config) for name, field in config.model_fields.items()]


def _setting(name: str, field: FieldInfo, config: type[BaseModel]) -> dict[str, Any]:
    """The entry of one setting: name, description, types, default, bounds and nested settings."""
    description: dict[str, Any] = {
        "name": name,
        "description": field.description or "",
        "types": types(field.annotation),
    }
    if isinstance(field.discriminator, str):  # settings of one of several kinds
        members = {member.model_fields["kind"].default: member for member in get_args(field.annotation)}
        description |= {"types": ["choice"], "choices": list(members)}
        description["kinds"] = {kind: _without_kind(settings(member)) for kind, member in members.items()}
    elif name == "ffn" and "settings" in description["types"]:
        description["kinds"] = _ffn_kinds()
    elif choices := _choices(field.annotation):
        description["choices"] = choices
    if not field.is_required():
        description["default"] = _default(field)
    bounds = {word: getattr(rule, word) for rule in field.metadata for word in BOUNDS if hasattr(rule, word)}
    if bounds:
        description["bounds"] = bounds
    if _is_converted(name, config):
        description["converted"] = True
    inner = field.annotation
    if isinstance(inner, type) and description["types"] == ["settings"]:
        models = _models(inner)
        description |= {"class": inner.__name__, "settings": settings(inner)} if models is None else models
    if description["types"] == ["list of settings"]:
        entry = get_args(inner)[0]
        description |= {"class": entry.__name__, "each": settings(entry)}
    return description


def _ffn_kinds() -> dict[str, Any]:
    """The settings of each kind of second sublayer."""
    from seqloom.models.ffn_kinds import FFN_KINDS

    return {kind: _without_kind(settings(member)) for kind, member in FFN_KINDS.items()}


def _models(config: type[BaseModel]) -> dict[str, Any] | None:
    """The settings that most kinds of model share, and what others have instead; None where it holds no model."""
    from seqloom.core.model_config import ModelConfig
    from seqloom.models.kinds import KINDS, SHARED

    if config is not ModelConfig:
        return None
    shared_fields = settings(SHARED)
    shared = {field["name"]: field for field in shared_fields if field["name"] != "kind"}
    next(field for field in shared_fields if field["name"] == "kind").update(types=["choice"], choices=list(KINDS))
    kinds = {}
    for kind, member in KINDS.items():
        fields = {field["name"]: field for field in _without_kind(settings(member))}
        changed = [field for name, field in fields.items() if shared.get(name) != field]
        if changed or fields.keys() != shared.keys():
            kinds[kind] = {"settings": changed, "without": [name for name in shared if name not in fields]}
    return {"class": SHARED.__name__, "settings": shared_fields, "models": kinds}


def _without_kind(tree: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [setting for setting in tree if setting["name"] != "kind"]


def types(annotation: Any) -> list[str]:
    """The names of a setting's types: int, float, bool, str, choice, null, or a few words for anything else."""
    parts = get_args(annotation)
    match get_origin(annotation):
        case origin if origin in (Union, UnionType):
            names = [name for part in parts for name in types(part)]
        case origin if origin is Literal:
            names = ["choice"]
        case origin if origin is tuple and parts[-1] is Ellipsis:
            names = [f"list of {types(parts[0])[0].removesuffix('s')}s"]
        case origin if origin is tuple:
            names = [f"[{', '.join(types(part)[0] for part in parts)}]"]
        case origin if origin is dict:
            names = ["mapping"]
        case _ if hasattr(annotation, "__origin__"):  # Annotated
            names = types(annotation.__origin__)
        case _:
            names = [PLAIN.get(annotation) or ("mixer" if annotation.__name__ == "MixerConfig" else "settings")]
    return names


def _choices(annotation: Any) -> list[Any]:
    if get_origin(annotation) is Literal:
        return list(get_args(annotation))
    if get_origin(annotation) in (Union, UnionType):
        return [choice for part in get_args(annotation) for choice in _choices(part)]
    return []


def _default(field: FieldInfo) -> Any:
    value = field.get_default(call_default_factory=True)
    if not isinstance(value, BaseModel):
        return to_jsonable_python(value)
    kind = {"kind": value.kind} if hasattr(value, "kind") else {}
    return {**kind, **value.model_dump(mode="json", exclude_defaults=True)}


def _is_converted(name: str, config: type[BaseModel]) -> bool:
    """Whether a validator of the field runs before its type is checked, and so may convert the value."""
    validators = config.__pydantic_decorators__.field_validators.values()
    return any(name in validator.info.fields and validator.info.mode != "after" for validator in validators)


def _price(config: type[Any]) -> dict[str, Any]:
    """The prices of a layer of `DIM` channels for a row of `CONTEXT` tokens and for its last token, or nothing."""
    import torch

    from seqloom.core.mixer_config import BrokenMixer

    causal = config.traits.causal != "never"
    try:
        with torch.device("meta"):
            mixer = config().build(DIM, CONTEXT, causal)
        costs = {"row": mixer.cost(CONTEXT)}
        if causal:
            costs["token"] = mixer.cost(CONTEXT, "token")
    except BrokenMixer:
        raise
    except ValueError:  # no layer of these sizes
        return {}
    return {use: {name: getattr(cost, name) for name in COUNTED} for use, cost in costs.items()}


def _patterns(config: type[Any]) -> list[dict[str, Any]]:
    """The drawings of a mixer: the settings, the form, and rows of letters by the heads that share them."""
    drawings = []
    for drawing in config.drawings:
        settings = {name: value for name, value in drawing.items() if name != "causal"}
        causal = drawing.get("causal", True)
        changes = [f"{name}={_word(value)}" for name, value in settings.items()]
        drawings.append(
            {"settings": changes, "causal": causal, "heads": config(**settings).draw_pattern(DRAWN, causal)}
        )
    return drawings


def _word(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, list) else str(value)


def _equation_and_source(document: str) -> tuple[str, str]:
    """A file's docstring without the paragraph of its source, and that paragraph."""
    match = re.search(r"^Source: (.+?)(?=\n\n|\Z)", document, flags=re.S | re.M)
    if match is None:
        return document.strip(), ""
    equation = document[: match.start()] + document[match.end() :]
    return re.sub(r"\n{3,}", "\n\n", equation).strip(), " ".join(match[1].split())


def _family(module: str) -> str:
    parts = module.split(".")
    return parts[2] if parts[:2] == ["seqloom", "mixers"] and len(parts) == 4 else "other"


if __name__ == "__main__":
    replace_text(PATH, text())
    print(f"{PATH.name} is written")

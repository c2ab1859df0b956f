"""Mistakes in names, types and bounds, found from registry.json before torch is loaded.

The settings become pydantic classes again, so that a mistake reads here as it does in the full check, which follows:
`resolve`. What needs the classes themselves (one setting against another, sizes, conversions) is left to it; nothing
that it accepts is an error here.
"""

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import Annotated, Any, Literal, Union

from pydantic import BeforeValidator, Field, create_model, field_validator

from seqloom.cli import registry
from seqloom.core.config import Config, IntLists, Ints, SizedConfig, read, read_inside, suggestion
from seqloom.experiments.contender import contender
from seqloom.training.preset import preset_values

TYPES: dict[str, Any] = {
    **{"int": int, "float": float, "bool": bool, "str": str, "null": None},
    **{"list of ints": Ints, "list of list of ints": IntLists},
}


def require_settings(preset: str, changes: Sequence[str] = (), source: str | None = None) -> None:
    """ValueError, in one line, where a preset with changes has an unknown name, or a value of another type or size."""
    read(_run(), preset_values(preset, changes, source))


def require_contenders(
    texts: Sequence[str], preset: str, changes: Sequence[str] = (), source: str | None = None
) -> None:
    """Raises ValueError as `require_settings` does for each of the models `KIND` or `KIND:NAME=VALUE,…`."""
    for text in dict.fromkeys(texts):
        named = contender(text)
        require_settings(preset, [*named.fitting(changes), *named.changes], source)


def require_mixer(values: dict[str, Any]) -> None:
    """ValueError where a mixer's kind is unknown, or a setting is not one of that kind's or does not fit it."""
    known = registry.mixers()
    if "kind" not in values:
        raise ValueError("a mixer needs a kind, such as {kind: attention}: `seqloom list` has them all")
    kind = values["kind"]
    if isinstance(kind, str) and kind not in known:
        registry.load()
        known = registry.mixers()
    if not isinstance(kind, str) or kind not in known:
        raise ValueError(f"unknown mixer {kind!r}; {suggestion(str(kind), known)}")
    read(_built_in(kind) if kind in registry.read()["mixers"] else _mixer(kind, known[kind]["settings"]), values)


@cache
def _built_in(kind: str) -> type[Config]:
    return _mixer(kind, registry.read()["mixers"][kind]["settings"])


def _mixer(kind: str, settings: Sequence[dict[str, Any]]) -> type[Config]:
    converts = any(setting.get("converted") for setting in settings)
    base = Config if converts else SizedConfig  # sizes come after conversion
    return _settings(kind, [_kind(kind), *settings], base)


@cache
def _run() -> type[Config]:
    return _settings("run", registry.run(), Config)


def _settings(name: str, settings: Sequence[dict[str, Any]], base: type[Config]) -> type[Config]:
    """A class of settings with the names, types, defaults and bounds of the registry."""
    fields: dict[str, Any] = {setting["name"]: (_type(setting), _field(setting)) for setting in settings}
    mixers = [setting["name"] for setting in settings if setting["types"][0] == "mixer" and "default" not in setting]
    validators: Any = {"mixers": field_validator(*mixers, mode="before")(_mixers)} if mixers else {}
    return create_model(name, __base__=base, __validators__=validators, **fields)


def _type(setting: dict[str, Any]) -> Any:
    if "models" in setting:
        return Annotated[Any, BeforeValidator(partial(_model, setting, cache(partial(_of_kind, setting))))]
    if "settings" in setting:
        return _settings(setting["class"], setting["settings"], Config)
    if "each" in setting:
        entry: Any = _settings(setting["class"], setting["each"], Config)
        return Annotated[tuple[entry, ...], Field(strict=False)]
    if "kinds" in setting:
        kinds = setting["kinds"].items()
        return Union[tuple(_settings(kind, [_kind(kind), *inner], Config) for kind, inner in kinds)]  # noqa: UP007  # as below
    types = setting["types"]
    if setting.get("converted") or not all(name in TYPES or name == "choice" for name in types):
        return Any
    choices: Any = Literal.__getitem__(tuple(setting.get("choices", ())))
    return Union[tuple(choices if name == "choice" else TYPES[name] for name in types)]  # noqa: UP007  # made at run time


def _model(setting: dict[str, Any], of_kind: Callable[[str], type[Config]], values: Any) -> Any:
    """The settings of a model; its kind decides which settings it has."""
    if not isinstance(values, dict):
        raise ValueError("a model is given by its settings, such as {kind: decoder}")
    kind = values.get("kind", "decoder")
    *_, known = (field["choices"] for field in setting["settings"] if field["name"] == "kind")
    if kind not in known:
        raise ValueError(f"unknown kind {kind!r} of a model; {suggestion(str(kind), known)}")
    return read_inside(of_kind(kind), values)


def _of_kind(setting: dict[str, Any], kind: str) -> type[Config]:
    other = setting["models"].get(kind, {"settings": [], "without": []})
    replaced = {"kind", *other["without"], *(field["name"] for field in other["settings"])}
    shared = [field for field in setting["settings"] if field["name"] not in replaced]
    return _settings(kind, [_kind(kind), *shared, *other["settings"]], Config)


def _field(setting: dict[str, Any]) -> Any:
    bounds = {} if setting.get("converted") else setting.get("bounds", {})
    if "settings" in setting and "default" in setting:  # its default consists of those of its settings
        return Field(None, **bounds)
    if "kinds" in setting:
        return Field(None, discriminator="kind")
    return Field(setting.get("default", ...), **bounds)


def _kind(kind: str) -> dict[str, Any]:
    return {"name": "kind", "types": ["choice"], "choices": [kind], "default": kind}


def _mixers(cls: type[Config], value: Any) -> Any:
    """The mixer of every layer, or a list of them; anything else is left to the full check."""
    for mixer in value if isinstance(value, list) else [value]:
        if isinstance(mixer, dict):
            require_mixer(mixer)
    return value

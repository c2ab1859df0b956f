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
from seqloom.core.feed_forward import KIND, require_own
from seqloom.core.named_object import is_named_object
from seqloom.studies.candidate import parse_candidate
from seqloom.training.preset import preset_values

TYPES: dict[str, Any] = {
    **{"int": int, "float": float, "bool": bool, "str": str, "null": None},
    **{"list of ints": Ints, "list of list of ints": IntLists},
}


def require_settings(preset: str, changes: Sequence[str] = (), source: str | None = None) -> None:
    """ValueError, in one line, where a preset with changes has an unknown name, or a value of another type or size."""
    read(_run_class(), preset_values(preset, changes, source))


def require_contenders(
    texts: Sequence[str], preset: str, changes: Sequence[str] = (), source: str | None = None
) -> None:
    """Raises ValueError as `require_settings` does for each of the models `KIND` or `KIND:NAME=VALUE,…`."""
    for text in dict.fromkeys(texts):
        model = parse_candidate(text)
        require_settings(preset, [*model.fitting(changes), *model.changes], source)


def require_mixer(values: dict[str, Any]) -> None:
    """ValueError where a mixer's kind is unknown, or a setting is not one of that kind's or does not fit it."""
    if "kind" not in values:
        raise ValueError("a mixer needs a kind, such as {kind: attention}: `seqloom list` has them all")
    kind = values["kind"]
    if is_named_object(kind):
        _require_layer(values)
        return
    ours = registry.read()["mixers"]
    if isinstance(kind, str) and kind in ours:
        read(_built_in_class(kind), values)
        return
    if isinstance(kind, str) and kind not in registry.further():
        registry.load()
    further = registry.further()
    if not isinstance(kind, str) or kind not in further:
        raise ValueError(registry.unknown_mixer(kind))
    read(_mixer_class(kind, registry.mixer_settings(further[kind])), values)


def _require_layer(values: dict[str, Any]) -> None:
    """ValueError where the values are no settings of a layer, whose module is imported for that, and torch with it."""
    from seqloom.mixers import mixer_config

    mixer_config(values)


@cache
def _built_in_class(kind: str) -> type[Config]:
    return _mixer_class(kind, registry.read()["mixers"][kind]["settings"])


def _mixer_class(kind: str, settings: Sequence[dict[str, Any]]) -> type[Config]:
    converts = any(setting.get("converted") for setting in settings)
    base = Config if converts else SizedConfig  # sizes come after conversion
    return _settings_class(kind, [_kind_setting(kind), *settings], base)


@cache
def _run_class() -> type[Config]:
    return _settings_class("run", registry.run(), Config)


def _settings_class(name: str, settings: Sequence[dict[str, Any]], base: type[Config]) -> type[Config]:
    """A class of settings with the names, types, defaults and bounds of the registry."""
    fields: dict[str, Any] = {setting["name"]: (_type(setting), _field(setting)) for setting in settings}
    mixers = [setting["name"] for setting in settings if setting["types"][0] == "mixer" and "default" not in setting]
    validators: Any = {"mixers": field_validator(*mixers, mode="before")(_mixers)} if mixers else {}
    return create_model(name, __base__=base, __validators__=validators, **fields)


def _type(setting: dict[str, Any]) -> Any:
    """The type of a setting's field; `Any` for a type that only the full check knows."""
    if "models" in setting:
        return Annotated[Any, BeforeValidator(partial(_model, setting, cache(partial(_model_class, setting))))]
    if "settings" in setting:
        return _settings_class(setting["class"], setting["settings"], Config)
    if "each" in setting:
        entry: Any = _settings_class(setting["class"], setting["each"], Config)
        return Annotated[tuple[entry, ...], Field(strict=False)]
    if "kinds" in setting:
        return _kinds_type(setting)
    types = setting["types"]
    if setting.get("converted") or not all(name in TYPES or name == "choice" for name in types):
        return Any
    choices: Any = Literal.__getitem__(tuple(setting.get("choices", ())))
    return Union[tuple(choices if name == "choice" else TYPES[name] for name in types)]  # noqa: UP007  # made at run time


def _kinds_type(setting: dict[str, Any]) -> Any:
    """The type of settings of one of several kinds; second sublayers may be a list."""
    if setting["types"] != ["choice"]:
        return Annotated[Any, BeforeValidator(partial(_feed_forward, setting["kinds"]))]
    kinds = setting["kinds"].items()
    return Union[tuple(_settings_class(kind, [_kind_setting(kind), *inner], Config) for kind, inner in kinds)]  # noqa: UP007  # as above


def _feed_forward(kinds: dict[str, list[dict[str, Any]]], value: Any) -> Any:
    """The second sublayer of every layer, or a list of them; anything else is left to the full check."""
    for ffn in value if isinstance(value, list) else [value]:
        if not isinstance(ffn, dict):
            continue
        kind = ffn.get("kind", KIND)
        if not isinstance(kind, str) or kind not in kinds:
            raise ValueError(f"unknown kind {kind!r} of a feed-forward network; {suggestion(str(kind), kinds)}")
        require_own(kind, ffn)
        read_inside(_settings_class(kind, [_kind_setting(kind), *kinds[kind]], Config), ffn)
    return value


def _model(setting: dict[str, Any], class_of_kind: Callable[[str], type[Config]], values: Any) -> Any:
    """The settings of a model; its kind decides which settings it has."""
    if not isinstance(values, dict):
        raise ValueError("a model is given by its settings, such as {kind: decoder}")
    kind = values.get("kind", "decoder")
    known = next(field["choices"] for field in setting["settings"] if field["name"] == "kind")
    if kind not in known:
        raise ValueError(f"unknown kind {kind!r} of a model; {suggestion(str(kind), known)}")
    return read_inside(class_of_kind(kind), values)


def _model_class(setting: dict[str, Any], kind: str) -> type[Config]:
    """The class of the settings of one kind of model: its own, and those that most kinds share."""
    kind_settings = setting["models"].get(kind, {"settings": [], "without": []})
    not_shared = {"kind", *kind_settings["without"], *(field["name"] for field in kind_settings["settings"])}
    shared = [field for field in setting["settings"] if field["name"] not in not_shared]
    return _settings_class(kind, [_kind_setting(kind), *shared, *kind_settings["settings"]], Config)


def _field(setting: dict[str, Any]) -> Any:
    bounds = {} if setting.get("converted") else setting.get("bounds", {})
    if "settings" in setting and "default" in setting:  # its default consists of those of its settings
        return Field(None, **bounds)
    if "kinds" in setting and setting["types"] == ["choice"]:
        return Field(None, discriminator="kind")
    return Field(setting.get("default", ...), **bounds)


def _kind_setting(kind: str) -> dict[str, Any]:
    """The setting `kind` of a class of which only this kind is an instance."""
    return {"name": "kind", "types": ["choice"], "choices": [kind], "default": kind}


def _mixers(cls: type[Config], value: Any) -> Any:
    """The mixer of every layer, or a list of them; anything else is left to the full check."""
    for mixer in value if isinstance(value, list) else [value]:
        if isinstance(mixer, dict):
            require_mixer(mixer)
    return value

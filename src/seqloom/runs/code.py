"""The code behind the settings of a run, so that an edited mixer is noticed: what a run was computed with, and is now.

    codes(config)                     {"my_mixer": "91b0…", "she": 2}
    changed(saved, codes(config))     ["my_mixer"]

A class of another package or of a notebook counts with a digest of its source (`module_source`, `notebook_source`). A
mixer of ours counts with `MixerConfig.equation_version`, which `tests/recordings` holds to what the mixers compute. At
version 1 it is left out, so that a run with our first equations alone has no codes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from typing import Any, TypeAlias, TypeGuard

from pydantic import BaseModel
from torch import nn

from seqloom.core.mixer_config import MixerConfig
from seqloom.runs import about, module_source, notebook_source, steps
from seqloom.runs.durable import canonical
from seqloom.runs.layout import Run

Codes: TypeAlias = dict[str, str | int]
"""by the kind, or by the name of a class without a kind: a digest of sources, or the version of a mixer of ours"""


def codes(settings: BaseModel) -> Codes:
    """What stands for the code of all that the settings describe; {} where that is our code at version 1 alone."""
    found: Codes = {}
    for part in parts(settings):
        kind = type(part)
        version = kind.equation_version if issubclass(kind, MixerConfig) else 1
        source = kind.source_class() if issubclass(kind, MixerConfig) else kind
        foreign = [base for base in source.__mro__ if _is_foreign(base)]
        name = str(getattr(part, "kind", kind.__name__))
        if foreign:
            found[name] = _digest(tuple(foreign), version)
        elif version != 1:
            found[name] = version
    return dict(sorted(found.items()))


def merge_codes(several: Iterable[BaseModel]) -> Codes:
    """`codes` of several settings together."""
    return {name: code for settings in several for name, code in codes(settings).items()}


def kinds(settings: BaseModel) -> set[str]:
    """The kinds of all mixers that the settings describe, those inside other mixers included."""
    return {part.kind for part in parts(settings) if isinstance(part, MixerConfig)}


def parts(settings: object) -> Iterator[BaseModel]:
    """The settings, and all settings inside of them."""
    if isinstance(settings, BaseModel):
        yield settings
        for name in type(settings).model_fields:
            yield from parts(getattr(settings, name))
    elif isinstance(settings, Mapping):
        for value in settings.values():
            yield from parts(value)
    elif isinstance(settings, list | tuple):
        for value in settings:
            yield from parts(value)


def changed_kinds(before: Mapping[str, Any], now: Codes) -> list[str]:
    """The kinds whose code was another one before.

    Ours were at version 1 where nothing was written. Of a foreign kind nothing is known then, so that it is not named.
    """
    unwritten = {name: 1 for name, code in now.items() if isinstance(code, int)}
    earlier = {**unwritten, **before}
    return sorted(name for name, code in earlier.items() if now.get(name, 1) != code)


def unwritten_kinds(before: Mapping[str, Any], now: Codes) -> list[str]:
    """The foreign kinds of whose code nothing was written before."""
    return sorted(name for name, code in now.items() if isinstance(code, str) and name not in before)


def changed_words(names: Sequence[str]) -> str:
    """What has changed, in words, such as `my_mixer's code changed since`."""
    owners = [f"{name}'s" for name in names]
    return f"{' and '.join(owners)} code changed since"


def of_run(run: Run) -> Codes:
    """The codes that a run's newest checkpoint was computed with; {} without a checkpoint that says so."""
    for path in steps.newest_first(run.checkpoints):
        try:
            return of_meta(about.describe(path).meta)
        except (OSError, ValueError):
            continue
    return {}


def of_meta(meta: Mapping[str, Any]) -> Codes:
    """The codes in a checkpoint's JSON, which is untrusted: {} where it has none, or something else in their place."""
    surroundings = meta.get("surroundings", meta)
    written = surroundings.get("code") if isinstance(surroundings, dict) else None
    return written if is_codes(written) else {}


def as_meta(settings: BaseModel) -> dict[str, Codes]:
    """The codes as a checkpoint's JSON has them where nothing else surrounds it: {} without any."""
    found = codes(settings)
    return {"code": found} if found else {}


def is_codes(value: object) -> TypeGuard[Codes]:
    """Whether a value that was read has the form of `Codes`."""
    return isinstance(value, dict) and all(isinstance(code, str | int) for code in value.values())


def _is_foreign(kind: type[Any]) -> bool:
    """Whether a class of settings, or of a layer, is neither ours nor of pydantic and torch."""
    top = kind.__module__.partition(".")[0]
    is_counted = issubclass(kind, BaseModel | nn.Module)
    return is_counted and top not in ("seqloom", "pydantic", "torch")


def _digest(classes: tuple[type[Any], ...], version: int) -> str:
    """The digest of the sources of the classes, of which the first derives from all others."""
    if any(kind.__module__ == notebook_source.MAIN for kind in classes):
        return _read(classes, version)
    return _cached_read(classes, version)


def _read(classes: tuple[type[Any], ...], version: int) -> str:
    found: dict[str, Any] = {} if version == 1 else {"version": version}
    for kind in classes:
        in_notebook = kind.__module__ == notebook_source.MAIN
        found |= notebook_source.sources(kind) if in_notebook else module_source.sources(kind.__module__)
    return sha256(canonical(found).encode()).hexdigest()


_cached_read = cache(_read)
"""`_read`, once for each class: what was imported does not change with its file"""

"""The arguments of `seqloom cost`, checked before torch is loaded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

from seqloom.cli import registry
from seqloom.cli.checked import require_mixer, require_settings
from seqloom.core.config import suggestion
from seqloom.core.yaml_text import parse_yaml
from seqloom.training.recipes import RECIPES

OWN = ("dim", "context", "tokens", "per", "json")
SHORT = {
    "mul": "multiplications",
    "add": "additions",
    "div": "divisions",
    "exp": "exponentiations",
    "other": "others",
    "total": "total",
    "params": "parameters",
    "state": "state",
    "path": "path",
}
LARGEST = 10**6
"""the largest size that may be given; torch's own sizes would overflow at larger ones"""
FLAGS = ("json", "all")
"""options without a value"""
COLUMNS = ("mixer", *SHORT)


@final
@dataclass(frozen=True)
class PricedMixer:
    """A mixer alone."""

    kind: str
    settings: dict[str, Any]
    dim: int
    context: int
    tokens: int
    per: Literal["sequence", "token"]
    as_json: bool


@final
@dataclass(frozen=True)
class PricedModel:
    """The whole model of a preset, or with `every` that model with each mixer in turn."""

    preset: str
    changes: tuple[str, ...]
    given: dict[str, str]
    """the options as they were typed: `tokens` is the model's context unless given"""
    per: Literal["sequence", "prefill", "token"] | None
    sort: str | None
    every: bool
    as_json: bool


def find_requested(kind: str, arguments: list[str]) -> PricedMixer | PricedModel:
    """The mixer or model to be priced.

    ValueError for unknown names, with a similar one, and for values that do not fit.
    """
    if kind.startswith("--"):  # `seqloom cost --all`: no preset is named
        kind, arguments = "paper/table1", [kind, *arguments]
        if "--all" not in arguments:
            raise ValueError("give a mixer or a preset, or --all")
    if kind in RECIPES or kind.endswith((".yaml", ".yml")):
        return _model(kind, arguments)
    return _mixer(kind, registry.setting_names(kind, RECIPES), arguments)


def _mixer(kind: str, fields: Sequence[str], arguments: list[str]) -> PricedMixer:
    """The request for a mixer alone, whose settings, `fields`, are options."""
    for word in ("--set", "--all"):
        if any(argument.partition("=")[0] == word for argument in arguments):
            raise ValueError(
                f"{word} is for whole models, e.g. seqloom cost paper/table1 {word}; the settings of {kind} are options"
            )
    values, _ = options(arguments, (*OWN, *fields))
    dim, context = size(values, "dim", 128), size(values, "context", 128)
    settings = {name: plain(value) for name, value in values.items() if name in fields}
    require_mixer({"kind": kind, **settings})
    tokens = size(values, "tokens", context)
    per: Any = choice(values, "per", ("sequence", "token")) or "sequence"
    return PricedMixer(kind, settings, dim, context, tokens, per, "json" in values)


def _model(preset: str, arguments: list[str]) -> PricedModel:
    """The request for the whole model of a preset, or with --all for that model with every mixer."""
    every = "--all" in arguments
    values, changes = options(arguments, ("set", "tokens", "per", "json", *(("all", "sort") if every else ())))
    sort = values.get("sort")
    if sort is not None and sort not in COLUMNS:
        raise ValueError(f"--sort {sort!r} is no column; {suggestion(sort, COLUMNS)}")
    per = choice(values, "per", ("sequence", "prefill", "token"))
    changes = ["data.source=stories", *changes]
    require_settings(preset, changes)
    return PricedModel(preset, tuple(changes), values, per, sort, every, "json" in values)


def options(arguments: list[str], known: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The values by name, and those of --set, which may be given again. ValueError for what is not `known`."""
    values: dict[str, str] = {}
    changes: list[str] = []
    words = iter(arguments)
    for word in words:
        name, sign, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise ValueError(f"unexpected argument {word!r}: options are --name value")
        if name not in known:
            option_names = [f"--{name.replace('_', '-')}" for name in known]
            typed = word.partition("=")[0]
            raise ValueError(f"unknown option {typed!r}; {suggestion(typed, option_names)}")
        if name in FLAGS and sign:
            raise ValueError(f"option --{name} takes no value")
        if name not in FLAGS and not sign:
            value = next(words, "")
            if not value or value.startswith("--"):
                raise ValueError(f"option --{name} needs a value")
        if name == "set":
            changes.append(value)
        else:
            values[name] = value
    return values, changes


def size(values: dict[str, str], name: str, default: int) -> int:
    """A size, from 1 to `LARGEST`."""
    text = values.get(name, str(default))
    if len(text) > 100 or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--{name} must be a whole number of at least 1 and at most {LARGEST:,}, not {text[:100]!r}")
    if int(text) > LARGEST:
        raise ValueError(f"--{name} must be at most {LARGEST:,}, not {text}")
    return int(text)


def choice(values: dict[str, str], name: str, allowed: tuple[str, ...]) -> Any:
    """One of the words that are allowed, or None where the option is not given."""
    value = values.get(name)
    if value is not None and value not in allowed:
        *first, last = allowed
        raise ValueError(f"--{name} must be {', '.join(first)} or {last}, not {value!r}")
    return value


def plain(text: str) -> Any:
    """A value of a mixer's field, read as YAML."""
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not readable YAML ({error})") from None

"""The options of `seqloom cost`, which depend on what is priced: words become names and values, or one clear line."""

from typing import Any

from seqloom.core.config import near
from seqloom.core.yaml_text import parse_yaml

LARGEST = 10**6
"""of a size given here: beyond it torch's own sizes would overflow"""
ALONE = ("json", "all")
"""options without a value"""


def options(arguments: list[str], known: tuple[str, ...]) -> tuple[dict[str, str], list[str]]:
    """The values by name, and those of --set, which may be given again. ValueError for what is not `known`."""
    given: dict[str, str] = {}
    changes: list[str] = []
    words = iter(arguments)
    for word in words:
        name, sign, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise ValueError(f"unexpected argument {word!r}: options are --name value")
        if name not in known:
            named = [f"--{name.replace('_', '-')}" for name in known]
            raise ValueError(f"unknown option {word.partition('=')[0]!r}; {near(word.partition('=')[0], named)}")
        if name in ALONE and sign:
            raise ValueError(f"option --{name} takes no value")
        if name not in ALONE and not sign:
            value = next(words, "")
            if not value or value.startswith("--"):
                raise ValueError(f"option --{name} needs a value")
        if name == "set":
            changes.append(value)
        else:
            given[name] = value
    return given, changes


def whole(given: dict[str, str], name: str, default: int) -> int:
    """A size, from 1 to `LARGEST`."""
    text = given.get(name, str(default))
    if len(text) > 100 or not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--{name} must be a whole number of at least 1 and at most {LARGEST:,}, not {text[:100]!r}")
    if int(text) > LARGEST:
        raise ValueError(f"--{name} must be at most {LARGEST:,}, not {text}")
    return int(text)


def choice(given: dict[str, str], name: str, allowed: tuple[str, ...]) -> Any:
    """One of the words that are allowed, or None where the option is not given."""
    value = given.get(name)
    if value is not None and value not in allowed:
        *most, last = allowed
        raise ValueError(f"--{name} must be {', '.join(most)} or {last}, not {value!r}")
    return value


def plain(text: str) -> Any:
    """A value of a mixer's field, read as YAML."""
    try:
        return parse_yaml(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not readable YAML ({error})") from None

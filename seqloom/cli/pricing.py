"""`seqloom cost`: a mixer's fields become options, and its price is printed as a table."""

import json
from typing import Any

import torch
import yaml

from seqloom.analysis import measure
from seqloom.analysis.cost import model_cost
from seqloom.core.config import near
from seqloom.core.cost import Cost
from seqloom.core.table import table
from seqloom.mixers import kinds, mixer_config
from seqloom.models.decoder import Decoder
from seqloom.training.recipes import RECIPES
from seqloom.training.settings import resolve

RUNS_UP_TO = 10**10
"""arithmetic operations of an equation up to which its fast path is run to be counted: about a second"""
LARGEST = 10**6
"""of a size given here: beyond it torch's own sizes would overflow"""
OWN = ("dim", "context", "tokens", "per", "json")
DONE = ("mul", "add", "div", "exp", "other", "total")
WORDS = {
    "mul": "multiplications",
    "add": "additions",
    "div": "divisions",
    "exp": "exponentiations",
    "other": "comparisons, roots",
    "total": "arithmetic operations",
    "params": "parameters",
    "state": "numbers of state",
}


def price(kind: str, arguments: list[str]) -> str:
    """The price of a mixer or of a preset's model, as text. ValueError for unknown names, with what was near."""
    if kind in RECIPES:
        return _model(kind, _options(arguments, ("tokens", "per", "json")))
    if kind not in kinds():
        raise ValueError(f"unknown mixer {kind!r}; {near(kind, [*kinds(), *RECIPES])}")
    fields = [name for name in kinds()[kind].model_fields if name != "kind"]
    given = _options(arguments, (*OWN, *fields))
    dim, context = _whole(given, "dim", 128), _whole(given, "context", 128)
    settings = {name: _plain(value) for name, value in given.items() if name in fields}
    config = mixer_config({"kind": kind, **settings})
    tokens, per = _whole(given, "tokens", context), _per(given)
    with torch.device("meta"):
        mixer = config.build(dim, context)
    longest = mixer.traits.longest
    if longest is not None and tokens > longest:
        raise ValueError(f"{kind} with a context of {context} reads at most {longest} tokens, not {tokens}")
    cost = mixer.cost(tokens, per)
    small = per == "sequence" and cost.total <= RUNS_UP_TO
    executed = measure.executed(config.build(dim, context), tokens) if small else None
    title = f"{kind}, dim {dim}, context {context}, {_place(tokens, per)}"
    return _shown(title, cost, executed, "json" in given)


def _model(preset: str, given: dict[str, str]) -> str:
    config = resolve(preset, ["data.source=stories"]).model
    with torch.device("meta"):
        model = Decoder(config)
    tokens, per = _whole(given, "tokens", config.context), _per(given)
    if model.longest is not None and tokens > model.longest:
        raise ValueError(f"the model of {preset} reads at most {model.longest} tokens, not {tokens}")
    title = f"the model of {preset}, {_place(tokens, per)}"
    return _shown(title, model_cost(model, tokens, per), None, "json" in given)


def _shown(title: str, cost: Cost, executed: Any, as_json: bool) -> str:
    rows = [(words, getattr(cost, name), getattr(executed, name, None)) for name, words in WORDS.items()]
    if as_json:
        said: dict[str, Any] = {"equation": {name: getattr(cost, name) for name in WORDS} | {"path": list(cost.path)}}
        if executed is not None:
            said["executed"] = {name: getattr(executed, name) for name in DONE}
        return json.dumps(said)
    if executed is None:
        body = table(("", "equation"), [row[:2] for row in rows])
    else:
        body = table(("", "equation", "fast path"), rows)
    path = f"critical path of a token, {len(cost.path)} operations"
    named = f": {' - '.join(cost.path)}" if len(cost.path) < 20 else ""
    return f"{title}\n\n{body}\n\n{path}{named}"


def _options(arguments: list[str], known: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    words = iter(arguments)
    for word in words:
        name, sign, value = word.removeprefix("--").partition("=")
        name = name.replace("-", "_")
        if not word.startswith("--"):
            raise ValueError(f"unexpected argument {word!r}: options are --name value")
        if name not in known:
            options = [f"--{each.replace('_', '-')}" for each in known]
            raise ValueError(f"unknown option {word.partition('=')[0]!r}; {near(word.partition('=')[0], options)}")
        if name == "json" and sign:
            raise ValueError("option --json takes no value")
        if name != "json" and not sign:
            value = next(words, "")
            if not value or value.startswith("--"):
                raise ValueError(f"option --{name} needs a value")
        given[name] = value
    return given


def _whole(given: dict[str, str], name: str, default: int) -> int:
    text = given.get(name, str(default))
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"--{name} must be a whole number of at least 1, not {text!r}")
    if int(text) > LARGEST:
        raise ValueError(f"--{name} must be at most {LARGEST:,}, not {text}")
    return int(text)


def _per(given: dict[str, str]) -> Any:
    per = given.get("per", "sequence")
    if per not in ("sequence", "token"):
        raise ValueError(f"--per must be sequence or token, not {per!r}")
    return per


def _place(tokens: int, per: str) -> str:
    return f"one row of {tokens:,} tokens" if per == "sequence" else f"the token at place {tokens:,}"


def _plain(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        raise ValueError(f"{text!r} is not readable YAML") from None

"""`seqloom cost`: a mixer, the whole model of a preset, or that model with every mixer, priced and printed as a table.

seqloom cost she --dim 128 --groups 4          a sublayer; its fields are options
seqloom cost tiny --set model.mixer.kind=she   a whole model
seqloom cost [tiny] --all --sort total         a whole model with each mixer; paper/table1 if none is named
"""

import json
from typing import Any, get_args

import torch

from seqloom.analysis import measure
from seqloom.analysis.whole import whole as whole_model
from seqloom.cli import price_table
from seqloom.cli.price_options import choice, options, plain, whole
from seqloom.core.config import near
from seqloom.core.cost import Cost, Per
from seqloom.core.table import table
from seqloom.mixers import kinds, mixer_config
from seqloom.training.recipes import RECIPES
from seqloom.training.settings import resolve

RUNS_UP_TO = 10**10
"""arithmetic operations of an equation up to which its fast path is run to be counted: about a second"""
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
    """The price of what is named, as text. ValueError for unknown names, with what was near."""
    if kind.startswith("--"):  # `seqloom cost --all`: no preset is named
        kind, arguments = "paper/table1", [kind, *arguments]
        if "--all" not in arguments:
            raise ValueError("what is to be priced? Name a mixer or a preset, or say --all")
    is_model = kind in RECIPES or kind.endswith((".yaml", ".yml"))
    if is_model:
        return price_table.priced(kind, arguments) if "--all" in arguments else _model(kind, arguments)
    if kind not in kinds():
        raise ValueError(f"unknown mixer {kind!r}; {near(kind, [*kinds(), *RECIPES])}")
    return _sublayer(kind, arguments)


def _sublayer(kind: str, arguments: list[str]) -> str:
    for word in ("--set", "--all"):
        if any(argument.partition("=")[0] == word for argument in arguments):
            raise ValueError(
                f"{word} is for whole models, as in seqloom cost paper/table1 {word}; {kind}'s fields are options"
            )
    fields = [name for name in kinds()[kind].model_fields if name != "kind"]
    given, _ = options(arguments, (*OWN, *fields))
    dim, context = whole(given, "dim", 128), whole(given, "context", 128)
    settings = {name: plain(value) for name, value in given.items() if name in fields}
    config = mixer_config({"kind": kind, **settings})
    tokens = whole(given, "tokens", context)
    per: Per = "token" if choice(given, "per", get_args(Per)) == "token" else "sequence"
    with torch.device("meta"):
        mixer = config.build(dim, context)
    longest = mixer.traits.longest
    if longest is not None and tokens > longest:
        raise ValueError(f"{kind} with a context of {context} reads at most {longest} tokens, not {tokens}")
    cost = mixer.cost(tokens, per)
    said: dict[str, Any] = {"equation": _counts(cost) | {"path": list(cost.path)}}
    columns: dict[str, Any] = {"equation": cost}
    if per == "sequence" and cost.total <= RUNS_UP_TO:
        columns["fast path"] = executed = measure.executed(config.build(dim, context), tokens)
        said["executed"] = {name: getattr(executed, name) for name in DONE}
    if "json" in given:
        return json.dumps(said)
    return _shown(f"{kind}, dim {dim}, context {context}, {_place(tokens, per)}", columns, cost)


def _model(preset: str, arguments: list[str]) -> str:
    given, changes = options(arguments, ("set", "tokens", "per", "json"))
    config = resolve(preset, ["data.source=stories", *changes]).model
    tokens, per = whole(given, "tokens", config.context), choice(given, "per", ("sequence", "prefill", "token"))
    try:
        costs = whole_model(config, tokens)
    except ValueError as error:
        raise ValueError(f"the model of {preset}: {error}") from None
    one = costs["training" if per in (None, "sequence") else per]
    if "json" in given:
        rest = {use: _counts(cost) for use, cost in costs.items() if per is None}
        return json.dumps({"equation": _counts(one) | {"path": list(one.path)}, **rest})
    columns: dict[str, Any] = {"equation": one} if per is not None else {
        "training": costs["training"], "prefill": costs["prefill"], "one more token": costs["token"]
    }  # fmt: skip
    shown = _shown(f"the model of {preset}, {_place(tokens, per or 'sequence')}", columns, one)
    if per is not None:
        return shown
    return f"{shown}\n\ntraining: its forward; a backward is not counted, it is taken as two forwards"


def _counts(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in WORDS}


def _shown(title: str, columns: dict[str, Any], cost: Cost) -> str:
    rows = [(words, *(getattr(each, name, None) for each in columns.values())) for name, words in WORDS.items()]
    path = f"critical path of a token, {len(cost.path)} operations"
    named = f": {' - '.join(cost.path)}" if len(cost.path) < 20 else ""
    return f"{title}\n\n{table(('', *columns), rows)}\n\n{path}{named}"


def _place(tokens: int, per: str) -> str:
    if per == "token":
        return f"the token at place {tokens:,}"
    return f"one row of {tokens:,} tokens" if per == "sequence" else f"a prompt of {tokens:,} tokens"

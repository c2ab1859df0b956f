"""`seqloom cost`: a mixer, the whole model of a preset, or that model with every mixer, priced and printed as a table.

seqloom cost she --dim 128 --groups 4          a sublayer; its fields are options
seqloom cost tiny --set model.mixer.kind=she   a whole model
seqloom cost [tiny] --all --sort total         a whole model with each mixer; paper/table1 if none is named
"""

import json
from typing import Any

import torch

from seqloom.analysis import measure, reach
from seqloom.analysis.whole import Use, required
from seqloom.analysis.whole import whole as whole_model
from seqloom.cli import price_table
from seqloom.cli.price_options import whole
from seqloom.cli.priced import PricedMixer, PricedModel
from seqloom.core.cost import Cost
from seqloom.core.table import table
from seqloom.mixers import mixer_config
from seqloom.training.settings import resolve

RUNS_UP_TO = 10**10
"""most operations of an equation whose fast path is run and counted: about a second"""
COLUMNS: dict[Use, str] = {"training": "training", "prefill": "prefill", "token": "one more token"}
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


def price(wanted: PricedMixer | PricedModel) -> str:
    """The price as text. ValueError for sizes that do not fit."""
    if isinstance(wanted, PricedMixer):
        return _mixer(wanted)
    return price_table.priced(wanted) if wanted.every else _model(wanted)


def _mixer(wanted: PricedMixer) -> str:
    kind, dim, context, tokens = wanted.kind, wanted.dim, wanted.context, wanted.tokens
    config = mixer_config({"kind": kind, **wanted.settings})
    causal = config.traits.causal != "never"  # else the form that it has
    with torch.device("meta"):
        mixer = config.build(dim, context, causal)
    longest = mixer.traits.longest
    if longest is not None and tokens > longest:
        raise ValueError(f"{kind} with a context of {context} reads at most {longest} tokens, not {tokens}")
    cost = mixer.cost(tokens, wanted.per)
    content: dict[str, Any] = {"equation": _counts(cost) | {"path": list(cost.path)}}
    columns: dict[str, Any] = {"equation": cost}
    if wanted.per == "sequence" and cost.total <= RUNS_UP_TO:
        columns["fast path"] = executed = measure.executed(config.build(dim, context, causal), tokens)
        content["executed"] = {name: getattr(executed, name) for name in DONE}
    content |= {} if config.tokens_back is None else {"tokens_back": config.tokens_back}
    if wanted.as_json:
        return json.dumps(content)
    shown = _shown(f"{kind}, dim {dim}, context {context}, {_title(tokens, wanted.per)}", columns, cost)
    return _with(shown, reach.in_words(config.tokens_back, None, 1))


def _model(wanted: PricedModel) -> str:
    config = resolve(wanted.preset, wanted.changes).model
    tokens, per = whole(wanted.given, "tokens", config.context), wanted.per
    try:
        costs = whole_model(config, tokens)
    except ValueError as error:
        raise ValueError(f"the model of {wanted.preset}: {error}") from None
    use = required(config, costs, per)
    price, together = costs[use], reach.tokens_back(config)
    if wanted.as_json:
        rest: dict[str, Any] = {use: _counts(cost) for use, cost in costs.items() if per is None}
        rest |= {} if together is None else {"tokens_back": together}
        return json.dumps({"equation": _counts(price) | {"path": list(price.path)}, **rest})
    columns: dict[str, Any] = {"equation": price} if per is not None else {COLUMNS[use]: costs[use] for use in costs}
    shown = _shown(f"the model of {wanted.preset}, {_title(tokens, per or 'sequence')}", columns, price)
    shown = _with(shown, f"The layers reach {together:,} tokens back at most." if together is not None else "")
    if per is not None:
        return shown
    return f"{shown}\n\ntraining: its forward; a backward is not counted, it is taken as two forwards"


def _with(shown: str, line: str) -> str:
    return f"{shown}\n\n{line}" if line else shown


def _counts(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in WORDS}


def _shown(title: str, columns: dict[str, Any], cost: Cost) -> str:
    rows = [(words, *(getattr(counts, name, None) for counts in columns.values())) for name, words in WORDS.items()]
    path = f"critical path of a token, {len(cost.path)} operations"
    named = f": {' - '.join(cost.path)}" if len(cost.path) < 20 else ""
    return f"{title}\n\n{table(('', *columns), rows)}\n\n{path}{named}"


def _title(tokens: int, per: str) -> str:
    if per == "token":
        return f"the token at place {tokens:,}"
    return f"one row of {tokens:,} tokens" if per == "sequence" else f"a prompt of {tokens:,} tokens"

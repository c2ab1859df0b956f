"""`seqloom cost`: a mixer, the whole model of a preset, or that model with every mixer, priced and printed as a table.

seqloom cost she --dim 128 --groups 4          a sublayer; its fields are options
seqloom cost tiny --set model.mixer.kind=she   a whole model
seqloom cost [tiny] --all --sort total         a whole model with each mixer; paper/table1 if none is named
"""

import json
from typing import Any

from seqloom.analysis import measure, reach
from seqloom.analysis.whole import Refused, Use, Whole, every_mixer, require_use
from seqloom.analysis.whole import whole as whole_model
from seqloom.cli.work.cost_request import SHORT, PricedMixer, PricedModel, size
from seqloom.core.cost import Cost
from seqloom.core.table import table
from seqloom.core.without_values import without_values
from seqloom.mixers import mixer_config
from seqloom.training.settings import resolve

RUNS_UP_TO = 10**10
"""the most operations of an equation whose fast path is run and counted, which takes about a second"""
COLUMNS: dict[Use, str] = {"training": "training", "prefill": "prefill", "token": "one more token"}
EXECUTED = ("mul", "add", "div", "exp", "other", "total")
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
UNKNOWN_PATH = "operations as torch executes them; its critical path is not known"
TITLES: dict[Use, str] = {
    "training": "training, the forward of one row of {T:,} tokens",
    "prefill": "prefill, a prompt of {T:,} tokens of which the last predicts",
    "token": "one more token, number {T:,}",
}
NOTES = (
    "total: mul, add, div and exp; others: comparisons, roots; state: numbers stored for the next token;\n"
    "path: operations of a token that must follow each other, after the tokens before it were read;\n"
    "a backward is not counted: it is taken as two forwards, since it has two products for each of the forward"
)


def price(request: PricedMixer | PricedModel) -> str:
    """The price as text. ValueError for sizes that do not fit."""
    if isinstance(request, PricedMixer):
        return _mixer(request)
    return _every_mixer(request) if request.every else _model(request)


def _mixer(request: PricedMixer) -> str:
    """The price of a mixer alone, with the operations that its fast path executes."""
    kind, dim, context, tokens = request.kind, request.dim, request.context, request.tokens
    config = mixer_config({"kind": kind, **request.settings})
    causal = config.traits.causal != "never"
    with without_values():
        mixer = config.build(dim, context, causal)
    notes = [f"it cannot {limit}" for limit in mixer.limitations]
    longest = mixer.traits.longest
    if longest is not None and tokens > longest:
        raise ValueError(f"{kind} with a context of {context} reads at most {longest} tokens, not {tokens}")
    cost = mixer.cost(tokens, request.per)
    content: dict[str, Any] = {"equation": _counts(cost) | {"path": list(cost.path)}}
    columns: dict[str, Any] = {"equation": cost}
    if request.per == "sequence" and cost.total <= RUNS_UP_TO:
        executed = measure.count_executed(config.build(dim, context, causal), tokens)
        columns["fast path"] = executed
        content["executed"] = {name: getattr(executed, name) for name in EXECUTED}
    if config.tokens_back is not None:
        content["tokens_back"] = config.tokens_back
    if request.as_json:
        return json.dumps(content)
    text = _text(f"{kind}, dim {dim}, context {context}, {_title(tokens, request.per)}", columns, cost)
    return "\n".join([_with_line(text, reach.in_words(config.tokens_back, None, 1)), *notes])


def _model(request: PricedModel) -> str:
    """The price of the whole model of a preset."""
    config = resolve(request.preset, request.changes).model
    tokens, per = size(request.given, "tokens", config.context), request.per
    try:
        costs = whole_model(config, tokens)
    except ValueError as error:
        raise ValueError(f"the model of {request.preset}: {error}") from None
    use = require_use(config, costs, per)
    price = costs[use]
    tokens_back = reach.tokens_back(config)
    if request.as_json:
        content: dict[str, Any] = {"equation": _counts(price) | {"path": list(price.path)}}
        if per is None:
            content |= {use: _counts(cost) for use, cost in costs.items()}
        if tokens_back is not None:
            content["tokens_back"] = tokens_back
        return json.dumps(content)
    columns: dict[str, Any] = {"equation": price} if per is not None else {COLUMNS[use]: costs[use] for use in costs}
    text = _text(f"the model of {request.preset}, {_title(tokens, per or 'sequence')}", columns, price)
    if tokens_back is not None:
        text = _with_line(text, f"The layers reach {tokens_back:,} tokens back at most.")
    if per is not None:
        return text
    return _with_line(text, "training: its forward; a backward is not counted, it is taken as two forwards")


def _with_line(text: str, line: str) -> str:
    return f"{text}\n\n{line}" if line else text


def _counts(cost: Cost) -> dict[str, int]:
    return {name: getattr(cost, name) for name in WORDS}


def _text(title: str, columns: dict[str, Any], cost: Cost) -> str:
    """The title, the table of all counts, and the critical path of `cost`, which is written out if it is short."""
    rows = [(label, *(getattr(counts, name, None) for counts in columns.values())) for name, label in WORDS.items()]
    operations = f": {' - '.join(cost.path)}" if len(cost.path) < 20 else ""
    path = f"critical path of a token, {len(cost.path)} operations{operations}" if cost.path else UNKNOWN_PATH
    return f"{title}\n\n{table(('', *columns), rows)}\n\n{path}"


def _title(tokens: int, per: str) -> str:
    if per == "token":
        return f"token {tokens:,}"
    return f"one row of {tokens:,} tokens" if per == "sequence" else f"a prompt of {tokens:,} tokens"


def _every_mixer(request: PricedModel) -> str:
    """One table for each use, or the one that --per names. ValueError where no mixer fits the model."""
    use = request.per
    config = resolve(request.preset, request.changes).model
    T = size(request.given, "tokens", config.context)
    prices = list(every_mixer(config, T))
    models = [model for model in prices if isinstance(model, Whole)]
    reasons = {refusal.mixer: refusal.reason for refusal in prices if isinstance(refusal, Refused)}
    if not models:
        raise ValueError(f"the model of {request.preset} with any mixer: {next(iter(reasons.values()))}")
    costs = models[0].costs
    uses: tuple[Use, ...] = tuple(costs) if use is None else (require_use(config, costs, use),)
    rows = {use: _sort_rows([_row(model.mixer, model.costs[use]) for model in models], request.sort) for use in uses}
    if request.as_json:
        return json.dumps({"preset": request.preset, "tokens": T, **rows, "refused": reasons})
    head = ("mixer", *SHORT.values())
    parts = [
        f"the model of {request.preset} with each mixer: {TITLES[use].format(T=T)}\n\n"
        + table(head, [tuple(row.values()) for row in lines])
        for use, lines in rows.items()
    ]
    notes = [f"no {kind}: {reason}" for kind, reason in reasons.items()]
    return "\n\n".join([*parts, NOTES, *notes])


def _row(kind: str, cost: Cost) -> dict[str, Any]:
    """A line: the path by its length."""
    return {"mixer": kind, **{name: getattr(cost, name) for name in SHORT if name != "path"}, "path": len(cost.path)}


def _sort_rows(rows: list[dict[str, Any]], by: str | None) -> list[dict[str, Any]]:
    """The least first; in the order of the registry where no column is named."""
    return rows if by is None else sorted(rows, key=lambda row: row[by])

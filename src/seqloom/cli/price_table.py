"""`seqloom cost --all`: a whole model with every mixer: the prices of training, of a prompt, and of one more token."""

import json
from typing import Any

from seqloom.analysis.whole import Refused, Use, Whole, every_mixer, required
from seqloom.cli.price_options import whole
from seqloom.cli.priced import SHORT, PricedModel
from seqloom.core.cost import Cost
from seqloom.core.table import table
from seqloom.training.settings import resolve

TITLES: dict[Use, str] = {
    "training": "training, the forward of one row of {T:,} tokens",
    "prefill": "prefill, a prompt of {T:,} tokens of which the last predicts",
    "token": "one more token, at place {T:,}",
}
NOTES = (
    "total: mul, add, div and exp; others: comparisons, roots; state: numbers stored for the next token;\n"
    "path: operations of a token that must follow each other, the tokens before it read;\n"
    "a backward is not counted: it is taken as two forwards, having two products for each of theirs"
)


def priced(wanted: PricedModel) -> str:
    """One table for each use, or the one that --per names. ValueError where no mixer fits the model."""
    use = wanted.per
    config = resolve(wanted.preset, wanted.changes).model
    T = whole(wanted.given, "tokens", config.context)
    prices = list(every_mixer(config, T))
    models = [model for model in prices if isinstance(model, Whole)]
    refused = {refusal.mixer: refusal.reason for refusal in prices if isinstance(refusal, Refused)}
    if not models:
        raise ValueError(f"the model of {wanted.preset} with any mixer: {next(iter(refused.values()))}")
    costs = models[0].costs
    uses: tuple[Use, ...] = tuple(costs) if use is None else (required(config, costs, use),)
    rows = {use: _sorted([_row(model.mixer, model.costs[use]) for model in models], wanted.sort) for use in uses}
    if wanted.as_json:
        return json.dumps({"preset": wanted.preset, "tokens": T, **rows, "refused": refused})
    head = ("mixer", *SHORT.values())
    parts = [
        f"the model of {wanted.preset} with each mixer: {TITLES[use].format(T=T)}\n\n"
        + table(head, [tuple(row.values()) for row in lines])
        for use, lines in rows.items()
    ]
    without = [f"no {kind}: {reason}" for kind, reason in refused.items()]
    return "\n\n".join([*parts, NOTES, *without])


def _row(kind: str, cost: Cost) -> dict[str, Any]:
    """A line: the path by its length."""
    return {"mixer": kind, **{name: getattr(cost, name) for name in SHORT if name != "path"}, "path": len(cost.path)}


def _sorted(rows: list[dict[str, Any]], by: str | None) -> list[dict[str, Any]]:
    """The least first; in the order of the registry where no column is named."""
    return rows if by is None else sorted(rows, key=lambda row: row[by])

"""The actions of `seqloom knn`; this module loads torch, the module of its options does not."""

import json
from pathlib import Path
from typing import Any

from seqloom.core.config import read as read_config
from seqloom.core.config import suggestion
from seqloom.core.model import Model
from seqloom.core.table import table
from seqloom.data.corpora import read, require_column
from seqloom.data.prepare import encode_documents
from seqloom.data.tokens import Tokens
from seqloom.evaluation.tuning import Tuned, tune
from seqloom.face import load
from seqloom.retrieval.building import build
from seqloom.retrieval.neighbors import Neighbors
from seqloom.retrieval.search import KINDS
from seqloom.retrieval.store import open_store
from seqloom.runs.checkpoint import peek
from seqloom.runs.layout import find_run
from seqloom.training.config import RunConfig
from seqloom.training.preparation import prepare_run


def build_store(
    run: Path,
    data: str | None,
    out: Path,
    batch: int,
    stride: int | None,
    half: bool,
    lists: int | None,
    probes: int | None,
    column: str | None,
    step: int | None,
) -> str:
    """Builds a store and returns what it holds."""
    model = model_of(run, step)
    if data is not None:
        source, tokens = data, tokens_of(run, model, data, column)
    elif column is None:
        source, tokens = trained_on(run)
    else:
        raise ValueError("--column needs a text: add --data, or leave out --column")
    settings: dict[str, Any] = {"batch": batch, "stride": stride, "half": half, "lists": lists, "probes": probes}
    store = build(model, tokens, out, source=source, run=str(run), step=step, **settings)
    rows = [
        ("keys", store.config.entries),
        ("numbers of a key", store.config.dim),
        ("bytes", store.keys.nbytes + store.values.nbytes),
        *([] if lists is None else [("inverted lists", lists)]),
    ]
    return table((str(out), source), rows)


def tune_store(
    run: Path,
    folder: Path,
    data: str,
    grid: tuple[list[Any], list[float], list[float]],
    batch: int,
    search: Any,
    column: str | None,
    step: int | None,
    *,
    as_json: bool,
) -> str:
    """Tries a grid, stores the best and returns the losses."""
    _require_kind(search)
    model = model_of(run, step)
    store = open_store(folder, model)
    ks, weights, temperatures = grid
    for k in ks:
        store.require(k)
    tokens = tokens_of(run, model, data, column)
    grid_settings: dict[str, Any] = {"ks": ks, "weights": weights, "temperatures": temperatures}
    result = tune(model, store, tokens, batch=batch, search=search, **grid_settings)
    best = result.best
    store.write_tuning(best, {"plain": result.plain, "mixed": result.losses[best]})
    if as_json:
        losses = [{**mix.model_dump(), "loss": loss} for mix, loss in result.losses.items()]
        return json.dumps({"plain": result.plain, "best": best.model_dump(), "losses": losses})
    return format_result(result, folder, data)


def format_result(result: Tuned, folder: Path, data: str) -> str:
    """The loss by λ, at the best k and temperature, next to the model's own."""
    best = result.best
    by_weight = {
        mix.weight: loss
        for mix, loss in result.losses.items()
        if mix.k == best.k and mix.temperature == best.temperature
    }
    rows = [("the model alone", result.plain), *((f"λ = {weight:g}", loss) for weight, loss in by_weight.items())]
    head = (f"{data}: loss, nats per token, of {best.k} neighbors at temperature {best.temperature:g}", "loss")
    chosen = f"λ = {best.weight:g}, k = {best.k} and temperature {best.temperature:g} are stored in {folder}"
    return f"{table(head, rows)}\n\n{chosen}"


def neighbors_of(model: Model, folder: Path | None, search: Any) -> Neighbors | None:
    """The store in a folder next to a model, for `evaluate` and `generate`; None without a folder."""
    if folder is None:
        if search is not None:
            raise ValueError("--search needs a store: add --knn, or leave it out")
        return None
    _require_kind(search)
    return Neighbors(model, open_store(folder, model), search=search)


def model_of(run: Path, step: int | None) -> Model:
    """The model of a run that has a tokenizer."""
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    return model


def tokens_of(run: Path, model: Model, data: str, column: str | None) -> Tokens:
    """The ids of a text, read as the run's own text was. ValueError for a column of a text that has none."""
    if column is not None:
        require_column(data)
    settings = find_run(run).data
    documents = read(data, column=settings.get("column", "text") if column is None else column)
    return encode_documents(documents, model.tokenizer, unwrap=settings.get("unwrap", True))


def trained_on(run: Path) -> tuple[str, Tokens]:
    """The text of a run, and the tokens of its training side. ValueError where it has none, or the text changed."""
    trained_run = find_run(run)
    newest = peek(trained_run.checkpoints)
    settings = None if newest is None else newest.meta.get("config")
    if settings is None:
        raise ValueError(
            f"the training text of {run} is not known, as its checkpoint holds no run settings: add --data"
        )
    config: RunConfig = read_config(RunConfig, settings)
    _, corpus = prepare_run(config)
    if corpus is None:
        raise ValueError(f"{run} was not trained on a text: add --data")
    if corpus.identity != trained_run.data.get("identity"):
        raise ValueError(f"{config.data.source} is no longer the text that {run} was trained on: add --data")
    return config.data.source, corpus.train


def _require_kind(search: Any) -> None:
    if search is not None and search not in KINDS:
        raise ValueError(f"unknown search {search!r}; {suggestion(str(search), KINDS)}")

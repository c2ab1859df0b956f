"""`seqloom evaluate`: how well a model predicts a text."""

import json
import math
from pathlib import Path
from typing import Any, Literal

from seqloom.cli.work.retrieval import neighbors_of, tokens_of
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model, require_generates
from seqloom.core.progress import progress
from seqloom.core.table import table
from seqloom.data.config import DataConfig
from seqloom.data.tokens import Tokens
from seqloom.evaluation.pseudo import score_pseudo
from seqloom.evaluation.reading import remembering, score_reading
from seqloom.evaluation.scores import Scores, score, unigram_entropy
from seqloom.evaluation.stories import floor
from seqloom.face import load
from seqloom.retrieval.neighbors import Neighbors
from seqloom.runs.layout import find_run
from seqloom.training.objectives import objective_of


def score_text(
    run: Path,
    data: str,
    *,
    batch: int,
    stride: int | None,
    memory: Literal["none", "carry"] | None,
    memory_length: int | None,
    column: str | None,
    pseudo: bool,
    step: int | None,
    as_json: bool,
    knn: Path | None = None,
    search: str | None = None,
) -> str:
    """The scores as text, or as one JSON object with the loss by position."""
    model = load(run, step=step)
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so text cannot be read for it")
    if knn is not None:
        require_generates(model, "predict the next token, which a store is of")
    neighbors = neighbors_of(model, knn, search)
    settings = find_run(run).data  # the text is read as the run's own text was
    if pseudo:
        tokens = tokens_of(run, model, data, column)
        _require_windows(model, stride, memory, memory_length)
        return _by_pseudo(run, score_pseudo(model, tokens, batch=batch, show=progress), data, as_json)
    examples = objective_of(find_run(run)).encode(data, column, settings, model)
    if examples is not None:
        _require_windows(model, stride, memory, memory_length)
        return _by_objective(run, model, examples, data, batch, as_json)
    tokens = tokens_of(run, model, data, column)
    if not model.traits.generates:
        _require_windows(model, stride, memory, memory_length)
        return _by_objective(run, model, tokens, data, batch, as_json)
    return _by_likelihood(run, model, tokens, data, batch, stride, memory, memory_length, neighbors, as_json)


def _by_likelihood(
    run: Path,
    model: Model,
    tokens: Tokens,
    data: str,
    batch: int,
    stride: int | None,
    memory: Literal["none", "carry"] | None,
    memory_length: int | None,
    neighbors: Neighbors | None,
    as_json: bool,
) -> str:
    """The scores of a model that predicts each token from those before it."""
    carried = (memory or _training_memory(run)) == "carry"
    if carried and stride is not None:
        raise ValueError("--stride is for windows without memory: leave it out, or add --memory none")
    if memory_length is not None and not carried:
        raise ValueError("--memory-length needs a memory: add --memory carry, or leave it out")
    reader = model if memory_length is None else remembering(model, memory_length)
    if neighbors is not None:
        neighbors.attach(reader)
    if carried:
        _require_positions(model, tokens)
        scores = score_reading(reader, tokens, batch=batch, neighbors=neighbors, show=progress)
    else:
        scores = score(reader, tokens, batch=batch, neighbors=neighbors, stride=stride, show=progress)
    lower_bound = floor(tokens, model.tokenizer)
    content = scores.row()
    rows: list[tuple[str, object]] = [("tokens", scores.tokens)]
    if carried:
        content["memory"] = "carry"
        rows.append(("memory", "carried through each document"))
    if memory_length is not None:
        content["memory_length"] = memory_length
        rows.append(("tokens of memory in a layer", memory_length))
    if stride is not None:
        content["stride"] = stride
        rows.append(("further tokens of each window", stride))
    if neighbors is not None:
        content["knn"] = neighbors.mix.model_dump()
        rows.append(("neighbors, their share", f"{neighbors.mix.k}, {neighbors.mix.weight:g}"))
    if as_json:
        return json.dumps({**content, "unigram_entropy": unigram_entropy(tokens), "floor": lower_bound})
    rows += [
        ("loss, nats a token", scores.loss),
        ("perplexity, e^loss", math.exp(scores.loss)),
        *by_byte(scores),
        ("loss of the text's own unigram frequencies", unigram_entropy(tokens)),
    ]
    if lower_bound is not None:
        rows.append(("lower bound (from the grammar)", lower_bound))
    last = len(scores.by_position)
    for position in sorted({1, 2, 8, 32, 128, last} & set(range(1, last + 1))):
        rows.append((f"loss after {position} tokens of the window", scores.by_position[position - 1]))
    return table((str(run), data), rows)


def by_byte(scores: Scores) -> list[tuple[str, object]]:
    """Rows for bits per byte, which are not known for a text with unknown words, and for the share of these words."""
    bits = "none: unknown words are lost" if scores.bits_per_byte is None else scores.bits_per_byte
    unknown = [] if scores.unknown is None else [("unknown words, of all tokens", f"{scores.unknown:.2%}")]
    return [("bits a byte", bits), *unknown]


def _by_pseudo(run: Path, scores: Scores, data: str, as_json: bool) -> str:
    """The scores of an encoder that reads each window once for each of its tokens."""
    if as_json:
        return json.dumps(scores.row())
    rows = [("tokens", scores.tokens), ("pseudo-likelihood: loss, nats a token", scores.loss)]
    return table((str(run), data), [*rows, *by_byte(scores)])


def _require_windows(model: Model, stride: int | None, memory: str | None, memory_length: int | None) -> None:
    """ValueError for options that apply only to the likelihood of a text, of a model that has none."""
    for option, value in (("--stride", stride), ("--memory", memory), ("--memory-length", memory_length)):
        if value is not None:
            raise ValueError(f"a model of kind {model.config.kind} has no likelihood of a text: leave {option} out")


def _require_positions(model: Model, tokens: Tokens) -> None:
    """ValueError where a document is longer than the model's position encoding, which a carried state reads beyond."""
    config = model.config
    if not isinstance(config, LayeredConfig):
        return
    reach, longest = config.position.longest(config.context), int((tokens.ends - tokens.starts).max())
    if reach is not None and longest > reach:
        raise ValueError(
            f"a document has {longest:,} tokens, and model.position={config.position.kind} reaches {reach:,}: leave "
            "out --memory carry, or train with model.position=none"
        )


def _training_memory(run: Path) -> Any:
    """The memory that the run was trained with."""
    training = find_run(run).settings.get("training")
    return training.get("memory", "none") if isinstance(training, dict) else "none"


def _by_objective(run: Path, model: Model, tokens: Tokens, data: str, batch: int, as_json: bool) -> str:
    """The scores of a model that does not predict the next token: by the objective that its run was trained under."""
    seed = find_run(run).data.get("seed", 0)  # the hidden tokens of a masked text are those of the training's scores
    objective = objective_of(find_run(run)).build(model.config, DataConfig(source=data, seed=seed), batch, None)
    row = objective.score(model, tokens)
    if as_json:
        return json.dumps(row)
    names = {"held_out": "loss, nats per target"}
    if "pairs" in row:
        names = {"held_out": "loss, nats per token of the targets", "accuracy": "targets written exactly"}
    return table((str(run), data), [("tokens", len(tokens)), *((names.get(name, name), row[name]) for name in row)])

"""Generation far from the first token: what one more costs and what is kept by then, of whole models, by length.

    decoding({"she": config, …}, [128, 65_536], Path("runs/all"))        a row for each model and length

At N tokens the model has a context of N, so that whoever can look back on all of them does. It has no positions, as a
table of them ends with the context, and freshly drawn weights: time and memory do not depend on them. Each model is
alone in the process. OUT/decoding.jsonl has a line for each row as soon as it is known; what is there is not measured
again, so an interrupted call goes on. Take a line out to have it measured anew.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from seqloom.analysis.origin import origin
from seqloom.core.device import chosen
from seqloom.core.model import Model, ModelConfig
from seqloom.core.progress import progress
from seqloom.core.state import nbytes
from seqloom.experiments.far import far
from seqloom.experiments.pace import TOKENS, pace
from seqloom.generation.modes import streams
from seqloom.ops.backends import use
from seqloom.positions.none import NoPositionConfig
from seqloom.runs.durable import replace
from seqloom.training.config import RunConfig
from seqloom.training.memory import keep_freed_memory, require_room

Row = dict[str, Any]
ROWS = "decoding.jsonl"
LENGTHS = (128, 1024, 8192, 65_536)
NO_STREAM = "does not stream"


def decoding(configs: Mapping[str, RunConfig], lengths: Sequence[int], out: Path, command: str = "") -> list[Row]:
    """A row for each model and length; `ms_a_token` and `state_bytes` are None where `why` says what is in the way."""
    path = out / ROWS
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    known = {(row["contender"], row["tokens"]): row for row in map(json.loads, filter(None, lines))}
    wanted = [(name, tokens) for name in configs for tokens in sorted(lengths)]
    missing = [each for each in wanted if each not in known]
    keep_freed_memory()
    with progress("tokens far from the first", len(wanted), "rows", start=len(wanted) - len(missing)) as advance:
        for name, tokens in missing:
            row = {"contender": name, "tokens": tokens, **_measured(configs[name], tokens), **origin(command)}
            known[name, tokens] = row
            replace(path, "".join(json.dumps(each) + "\n" for each in known.values()).encode())
            advance(1, f"{name} at {tokens:,}")
    return [known[each] for each in wanted]


def require_lengths(lengths: Sequence[int]) -> None:
    """Raises ValueError for lengths at which nothing can be measured."""
    if len(set(lengths)) < len(lengths) or any(tokens < 1 for tokens in lengths):
        raise ValueError(f"lengths are numbers of tokens from 1 on that differ, not {', '.join(map(str, lengths))}")


def _measured(config: RunConfig, tokens: int) -> Row:
    """What is known of one model at one length."""
    found: Row = {"ms_a_token": None, "state_bytes": None, "tokens_read": 0, "why": None}
    device = chosen(config.training.device)
    with torch.random.fork_rng(), use(**config.backends):
        torch.manual_seed(0)
        try:
            model = _model(config.model, tokens, device)
            reached = far(model, tokens, room=TOKENS)
        except ValueError as error:
            return found | {"why": str(error)}
        found |= {"state_bytes": nbytes(model.trim(reached.state)), "tokens_read": reached.read}
        return found | {"ms_a_token": float(f"{1e3 * pace(model, reached.state, tokens):.4g}")}


def _model(sizes: ModelConfig, tokens: int, device: torch.device) -> Model:
    """The model with a context of N; of a few more where it reads no further. ValueError where it has no room."""
    for context in (tokens, tokens + TOKENS):
        here = sizes.model_copy(update={"context": context, "position": NoPositionConfig()})
        with torch.device("meta"):
            model = here.build()
        if not streams(model):
            raise ValueError(NO_STREAM)
        if model.traits.longest is None or model.traits.longest > tokens:
            break
    try:
        require_room(here, device)
    except ValueError:
        numbers = sum(parameter.numel() for parameter in model.parameters())
        raise ValueError(f"a model of {numbers:,} parameters does not fit into the memory") from None
    return here.build().to(device).eval()

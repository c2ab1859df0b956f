"""Tokens of B texts side by side: read, draw, read on.

logits = read(prompts);   repeat:  ids ~ p(logits),  logits = read(ids)
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.arguments import describe_value
from seqloom.core.model import Model, require_generates
from seqloom.core.rest import Rest
from seqloom.core.shapes import Ids
from seqloom.generation.exits import Exiting
from seqloom.generation.modes import Mode, Reader, reader
from seqloom.generation.penalties import Seen
from seqloom.generation.sample import Sampling, draw, require_sampling
from seqloom.models.arguments import INTEGERS
from seqloom.retrieval.neighbors import Neighbors, require_neighbors


@dataclass(frozen=True)
class Drawn:
    """One further token of each of B texts."""

    ids: Int[Tensor, " B"]
    logits: Float[Tensor, "B W"]
    """of the model, before temperature and cuts; `logits.log_softmax(1)` at the id is its log-probability"""


def tokens(
    model: Model,
    prompts: Ids,
    *,
    max_tokens: int,
    mode: Mode | None = None,
    hop: int = 1,
    sampling: Sampling | None = None,
    neighbors: Neighbors | None = None,
    exiting: Exiting | None = None,
    compile: bool | None = None,
) -> Iterator[Drawn]:
    """Draws `max_tokens` tokens for each of B prompts (B, T), with the logits that each was drawn from.

    With `neighbors` the logits are ln p of the model's prediction mixed with that of the neighbors; with `exiting`
    layers are left out; `compile` is as in `generate`. It does not stop at `<eos>`; the caller does. Raises ValueError
    or TypeError at the call, as `generate` does.
    """
    check_prompts(model, prompts)
    sampling = require_sampling(Sampling() if sampling is None else sampling)
    if neighbors is not None:
        require_neighbors(neighbors)
    if exiting is not None and not isinstance(exiting, Exiting):
        raise TypeError(f"exiting is a seqloom.generation.exits.Exiting, not {describe_value(exiting)}")
    if exiting is not None and compile:
        raise ValueError("each token leaves out layers of its own, which no graph does: leave out compile or exits")
    step = None if exiting is None else exiting.step
    reading = reader(model, mode, hop, prompts.shape[1], max_tokens, step, compile)
    if exiting is not None:
        with Rest(model):
            exiting.begin(prompts.to(model.device))
    draws = draw_tokens(model, reading, prompts, max_tokens, sampling, neighbors)
    return draws if exiting is None else exiting.follow(draws)


def check_prompts(model: Model, prompts: Any) -> None:
    """Raises TypeError or ValueError unless the model writes text, and prompts are token ids (B, T) that it reads."""
    require_generates(model)
    check_rows("prompts", prompts, model.config.vocab)


def check_rows(name: str, rows: Any, vocab: int) -> None:
    """Raises TypeError or ValueError unless rows are token ids (B, T) below `vocab`; errors call them `name`."""
    if not isinstance(rows, Tensor):
        raise TypeError(
            f"{name} are a tensor (B, T) of token ids, not {describe_value(rows)}: use torch.tensor({name})"
        )
    if rows.dtype not in INTEGERS:
        raise ValueError(f"{name} are token ids (B, T) of int64, not {describe_value(rows)}: convert with .long()")
    if rows.ndim != 2 or len(rows) == 0:
        raise ValueError(f"{name} are token ids (B, T) of at least one row, not {tuple(rows.shape)}")
    if rows.is_meta:
        raise ValueError(f"{name} are on meta, where they have no values: give token ids on a device that computes")
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < vocab:
        wrong = next(id for id in rows.flatten().tolist() if not 0 <= id < vocab)
        singular = name.removesuffix("s")
        raise ValueError(f"token id {wrong} of the {singular} lies outside the model's vocabulary, 0 … {vocab - 1}")


def draw_tokens(
    model: Model,
    reading: Reader,
    prompts: Ids,
    count: int,
    sampling: Sampling,
    neighbors: Neighbors | None = None,
) -> Iterator[Drawn]:
    """`tokens` of a given reader, whose model is `model`; nothing is checked."""
    rest = Rest(model)
    generator = sampling.generator()
    with rest:
        logits = _mix(reading.prompt(prompts.to(model.device)), neighbors)
    seen = Seen.after(prompts, logits.shape[1]) if sampling.penalizes else None
    for remaining in range(count, 0, -1):
        ids = draw(logits, sampling, generator, seen)
        yield Drawn(ids, logits)
        if remaining > 1:
            seen = None if seen is None else seen.add(ids)
            with rest:
                logits = _mix(reading.token(ids), neighbors)


def _mix(logits: Tensor, neighbors: Neighbors | None) -> Tensor:
    """The logits mixed with the predictions of the neighbors, if there are any."""
    return logits if neighbors is None else neighbors.mix_logits(logits)

"""Text from a model: a prompt, continued piece by piece.

How the model reads is `seqloom.generation.modes`, how a token is drawn `seqloom.generation.sample`, how ids become text
`seqloom.generation.text`, what it costs `seqloom.generation.price`.
"""

import operator
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, overload

import torch
from torch import Tensor

from seqloom.core.arguments import count, described
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.core.shapes import Ids
from seqloom.generation.drafting import Draft, drafted
from seqloom.generation.draws import tokens
from seqloom.generation.exits import Exits
from seqloom.generation.modes import Mode
from seqloom.generation.sample import Sampling
from seqloom.generation.text import check_stop, pieces
from seqloom.models.arguments import check_flag
from seqloom.retrieval.neighbors import Neighbors


@overload
def generate(
    model: Model,
    prompt: str,
    *,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: Sequence[str] = (),
    ignore_eos: bool = False,
    neighbors: Neighbors | None = None,
    draft: Draft | None = None,
    exits: Exits | None = None,
    compile: bool | None = None,
) -> Iterator[str]: ...
@overload
def generate(
    model: Model,
    prompt: Sequence[int],
    *,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    ignore_eos: bool = False,
    neighbors: Neighbors | None = None,
    draft: Draft | None = None,
    exits: Exits | None = None,
    compile: bool | None = None,
) -> Iterator[int]: ...
def generate(
    model: Model,
    prompt: str | Sequence[int],
    *,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    seed: int = 0,
    stop: Sequence[str] = (),
    ignore_eos: bool = False,
    neighbors: Neighbors | None = None,
    draft: Draft | None = None,
    exits: Exits | None = None,
    compile: bool | None = None,
) -> Iterator[str] | Iterator[int]:
    """Continues `prompt` by at most `max_tokens` tokens: yields pieces of text for a text prompt, ids for ids.

    The prompt is not repeated. `<eos>` ends the text and is not given, unless `ignore_eos`; so does the first string of
    `stop`. A text prompt needs `model.tokenizer`; ids do not, and without one there is no `<eos>`. Between two pieces
    the model is unchanged, training mode included. The same seed gives the same text; the global random state stays.
    With `neighbors` each prediction is mixed with those of a store (`seqloom.retrieval`); with a `draft` a small model
    writes ahead (`seqloom.generation.drafting`); with `exits` layers are left out (`seqloom.generation.exits`).

    `seqloom.generation.modes` says which mode is the default. With `compile` the model's step is compiled once
    (`seqloom.generation.compiled`), by default from 10,000 tokens on where the mode is stream.

    Raises ValueError or TypeError at the call for invalid arguments: see `modes.checked_mode` for lengths.
    """
    require_generates(model)
    check_flag("ignore_eos", ignore_eos)
    check_stop(stop)
    sampling: Sampling = read(Sampling, {"temperature": temperature, "top_k": top_k, "top_p": top_p})
    tokenizer = model.tokenizer
    eos = None if tokenizer is None or ignore_eos else tokenizer.eos
    if isinstance(prompt, str):
        if tokenizer is None:
            raise ValueError("the model has no tokenizer to read a text with: set model.tokenizer, or give token ids")
        if not prompt:
            raise ValueError("the prompt is empty: give at least one character")
    elif stop:
        raise ValueError("stop is for a text prompt: token ids have no text to look for it in")
    ids = tokenizer.encode(prompt) if isinstance(prompt, str) else _token_ids(prompt)
    prompts = torch.tensor([ids], dtype=torch.long)
    options: dict[str, Any] = {"max_tokens": max_tokens, "mode": mode, "hop": hop, "sampling": sampling}
    draws = tokens(model, prompts, **options, seed=seed, neighbors=neighbors, exits=exits, compile=compile)
    new_ids: Iterator[int] = (int(draw.ids[0]) for draw in draws)
    if draft is not None:
        if neighbors is not None or exits is not None:
            raise ValueError(
                "a draft is of the large model's own predictions: leave out neighbors and exits, or the draft"
            )
        if compile:
            raise ValueError("a draft is checked in pieces, which are not compiled: leave out compile, or the draft")
        new_ids = drafted(model, draft, ids, **options, generator=torch.Generator().manual_seed(seed))
    continuation = _before_eos(eos, new_ids)
    return pieces(continuation, tokenizer, stop, ids) if isinstance(prompt, str) else continuation


def generate_ids(
    model: Model,
    prompts: Ids,
    *,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    sampling: Sampling | None = None,
    seed: int = 0,
    eos: int | None = None,
) -> list[list[int]]:
    """Continues B prompts (B, T) of equal length side by side: the new ids of each row, up to `eos` and without it.

    One generator draws for all rows: a row depends on the seed, its index and B, not on the other rows' tokens.
    """
    if eos is not None:
        count("eos", eos)
    draws = tokens(model, prompts, max_tokens=max_tokens, mode=mode, hop=hop, sampling=sampling, seed=seed)
    rows: list[list[int]] = [[] for _ in range(len(prompts))]
    running = set(range(len(rows)))
    for draw in draws:
        ids = draw.ids.tolist()
        running -= {row for row in running if ids[row] == eos}
        if not running:
            break
        for row in running:
            rows[row].append(ids[row])
    return rows


def _before_eos(eos: int | None, ids: Iterable[int]) -> Iterator[int]:
    """The ids before the first `eos`; all of them where `eos` is None or does not come."""
    for id in ids:
        if id == eos:
            return
        yield id


def _token_ids(prompt: Any) -> list[int]:
    """The ids of a prompt as Python ints; TypeError or ValueError unless it is a list or a tensor (T,) of integers."""
    if isinstance(prompt, Tensor) and prompt.ndim != 1:
        raise ValueError(f"a prompt is a text or a list of token ids, not {described(prompt)}; see generate_ids")
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | dict | set):
        raise TypeError(f"a prompt is a text or a list of token ids, not {described(prompt)}")
    wrong = [id for id in prompt if not _is_integer(id)]
    if wrong:
        raise ValueError(f"token ids are whole numbers, not {wrong[0]!r}")
    ids = [operator.index(id) for id in prompt]
    outside = next((id for id in ids if not -(2**63) <= id < 2**63), None)
    if outside is not None:
        raise ValueError(f"token id {outside} of the prompt lies outside any vocabulary")
    return ids


def _is_integer(id: Any) -> bool:
    """Whether a value is an integer of any library, and no bool."""
    if isinstance(id, bool) or (isinstance(id, Tensor) and id.dtype == torch.bool):
        return False
    try:
        operator.index(id)
    except TypeError:
        return False
    return True

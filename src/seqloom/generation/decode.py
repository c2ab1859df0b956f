"""Text from a model: a prompt, continued piece by piece.

Values decide how it is written (`seqloom.generation.ways`). How the model reads is `seqloom.generation.modes`, how a
token is drawn `seqloom.generation.sample`, how ids become text `seqloom.generation.text`, what it costs
`seqloom.generation.price`.
"""

import operator
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar, final, overload

import torch
from torch import Tensor
from typing_extensions import override

from seqloom.core.arguments import count, describe_value
from seqloom.core.model import Model, require_generates
from seqloom.core.shapes import Ids
from seqloom.generation.beams import Beams, beam_search
from seqloom.generation.drafting import Draft, Drafting, draw_with_draft
from seqloom.generation.draws import tokens
from seqloom.generation.exits import Exiting, Exits
from seqloom.generation.modes import Mode
from seqloom.generation.sample import Sampling
from seqloom.generation.text import check_stop, pieces
from seqloom.generation.ways import Way, Ways
from seqloom.models.arguments import check_flag
from seqloom.retrieval.neighbors import Retrieval

Piece = TypeVar("Piece", str, int)


@final
class Continuation(Iterator[Piece], Generic[Piece]):
    """The new pieces of a text, or its new ids: each is written when it is asked for."""

    def __init__(self, pieces: Generator[Piece, None, None], counts: Drafting | Exiting | None) -> None:
        self._pieces: Generator[Piece, None, None] = pieces
        self.counts = counts
        """what came of a draft or of exits, so far"""

    @override
    def __next__(self) -> Piece:
        return next(self._pieces)

    def close(self) -> None:
        """Ends the text."""
        self._pieces.close()


@overload
def generate(model: Model, prompt: str, *ways: Way, **settings: Any) -> Continuation[str]: ...
@overload
def generate(model: Model, prompt: Sequence[int], *ways: Way, **settings: Any) -> Continuation[int]: ...
def generate(
    model: Model,
    prompt: str | Sequence[int],
    *ways: Way,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    stop: Sequence[str] = (),
    ignore_eos: bool = False,
    compile: bool | None = None,
    **sampling: Any,
) -> Continuation[str] | Continuation[int]:
    """Continues `prompt` by at most `max_tokens` tokens: yields pieces of text for a text prompt, ids for ids.

    `ways` are values: `Sampling` (how a token is drawn), `Draft` (a small model writes ahead), `Exits` (layers are left
    out), `Retrieval` (predictions are mixed with those of a store), or `Beams` (the likeliest text). Other keywords are
    settings of a Sampling, such as temperature, top_k, top_p, min_p, repetition_penalty, presence_penalty and seed.

    The prompt is not repeated. `<eos>` ends the text and is not given, unless `ignore_eos`; so does the first string of
    `stop`. A text prompt needs `model.tokenizer`; ids do not, and without one there is no `<eos>`. Between two pieces
    the model is unchanged, training mode included. The same seed gives the same text; the global random state stays.

    `seqloom.generation.modes` says which mode is the default. With `compile` the model's step is compiled once
    (`seqloom.generation.compiled`), by default from 10,000 tokens on where the mode is stream.

    Raises ValueError or TypeError at the call for invalid arguments: see `modes.checked_mode` for lengths.
    """
    require_generates(model)
    check_flag("ignore_eos", ignore_eos)
    check_stop(stop)
    chosen = Ways(ways, sampling)
    ids = prompt_ids(model, prompt, stop)
    eos = None if model.tokenizer is None or ignore_eos else model.tokenizer.eos
    reading: dict[str, Any] = {"max_tokens": max_tokens, "mode": mode, "hop": hop}
    beams = chosen.get(Beams)
    draft = chosen.get(Draft)
    if (beams or draft) and compile:
        raise ValueError("a draft is checked in pieces, which are not compiled: leave out compile, or the draft")
    counts: Drafting | Exiting | None = None
    if beams is not None:
        new_ids: Iterator[int] = iter(_find_best(model, ids, beams, eos, **reading))
    elif draft is not None:
        counts = Drafting(draft)
        new_ids = draw_with_draft(model, ids, counts, **reading, sampling=chosen.get(Sampling) or Sampling())
    else:
        exits = chosen.get(Exits)
        counts = None if exits is None else Exiting(model, exits)
        new_ids = _draw_ids(model, ids, chosen, exiting=counts, compile=compile, **reading)
    continuation = _before_eos(eos, new_ids)
    if isinstance(prompt, str):
        return Continuation(pieces(continuation, model.tokenizer, stop, ids), counts)
    return Continuation(continuation, counts)


def prompt_ids(model: Model, prompt: Any, stop: Sequence[str] = ()) -> list[int]:
    """The ids of a prompt, which are those of its text or its own.

    ValueError for a text that is empty or has no tokenizer, and for ids with strings to stop at; else as `_token_ids`.
    """
    if not isinstance(prompt, str):
        if stop:
            raise ValueError("stop is for a text prompt: token ids have no text to look for it in")
        return _token_ids(prompt)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer to read a text with: set model.tokenizer, or give token ids")
    if not prompt:
        raise ValueError("the prompt is empty: give at least one character")
    return list(model.tokenizer.encode(prompt))


def _draw_ids(model: Model, ids: list[int], ways: Ways, **settings: Any) -> Iterator[int]:
    """The new ids of one text, with the neighbors of a store where there are any; these are open until its end."""
    retrieval = ways.get(Retrieval)
    neighbors = None if retrieval is None else retrieval.open(model)
    prompts = torch.tensor([ids], dtype=torch.long)
    draws = tokens(model, prompts, **settings, sampling=ways.get(Sampling), neighbors=neighbors)

    def drawn_ids() -> Iterator[int]:
        try:
            for draw in draws:
                yield int(draw.ids[0])
        finally:
            if neighbors is not None:
                neighbors.close()

    return drawn_ids()


def _find_best(model: Model, ids: list[int], beams: Beams, eos: int | None, **reading: Any) -> list[int]:
    """The ids of the best text of a beam search. ValueError where several are asked for."""
    if beams.best > 1:
        raise ValueError("generate gives one text: leave best at 1, or use seqloom.generation.beams.beam_search")
    prompts = torch.tensor([ids], dtype=torch.long)
    ((best,),) = beam_search(model, prompts, beams=beams, eos=eos, **reading)
    return best.ids


def generate_ids(
    model: Model,
    prompts: Ids,
    *,
    max_tokens: int = 200,
    mode: Mode | None = None,
    hop: int = 1,
    sampling: Sampling | None = None,
    eos: int | None = None,
) -> list[list[int]]:
    """Continues B prompts (B, T) of equal length side by side: the new ids of each row, up to `eos` and without it.

    One generator draws for all rows: a row depends on the seed, its index and B, not on the other rows' tokens.
    """
    if eos is not None:
        count("eos", eos)
    draws = tokens(model, prompts, max_tokens=max_tokens, mode=mode, hop=hop, sampling=sampling)
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


def _before_eos(eos: int | None, ids: Iterable[int]) -> Generator[int, None, None]:
    """The ids before the first `eos`; all of them where `eos` is None or does not come."""
    for id in ids:
        if id == eos:
            return
        yield id


def _token_ids(prompt: Any) -> list[int]:
    """The ids of a prompt as Python ints; TypeError or ValueError unless it is a list or a tensor (T,) of integers."""
    if isinstance(prompt, Tensor) and prompt.ndim != 1:
        raise ValueError(f"a prompt is a text or a list of token ids, not {describe_value(prompt)}; see generate_ids")
    if not isinstance(prompt, Iterable) or isinstance(prompt, bytes | dict | set):
        raise TypeError(f"a prompt is a text or a list of token ids, not {describe_value(prompt)}")
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

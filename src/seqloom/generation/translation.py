"""Targets to sources: a source is read whole, and its target is drawn or searched token by token.

    state = begin(source);   logits = read(<eos>);   repeat:  ids from logits,  logits = read(ids)

The target ends at `<eos>`, which is also what it begins with.
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.arguments import count, mask
from seqloom.core.model import Model, require_translates
from seqloom.core.rest import Rest
from seqloom.core.shapes import Ids, Keep
from seqloom.core.state import ModelState, select
from seqloom.generation.beams import Beams, Hypothesis, require_beams, search
from seqloom.generation.draws import check_rows, draw_tokens
from seqloom.generation.modes import Reader
from seqloom.generation.sample import Sampling, require_sampling


@final
class Translating(Reader):
    """A model that translates, and its state after the tokens of B targets so far."""

    def __init__(self, model: Model, source: Ids, keep: Keep | None) -> None:
        self._model, self._source, self._keep = model, source, keep
        self._state: ModelState | None = None

    @override
    def prompt(self, ids: Ids) -> Float[Tensor, "B W"]:
        """Reads the sources, and the first tokens of their targets."""
        x, self._state = self._model.read(ids, self._model.begin(self._source, self._keep))
        return self._model.logits(x[:, -1:])[:, 0]

    @override
    def token(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B W"]:
        assert self._state is not None, "it has read no source"
        logits, self._state = self._model.step(ids, self._state, reuse=True)
        return logits

    @override
    def choose(self, rows: Int[Tensor, " N"]) -> None:
        assert self._state is not None, "it has read no source"
        self._state = select(self._state, rows)


def translate(
    model: Model,
    source: Ids,
    keep: Keep | None = None,
    *,
    eos: int,
    max_tokens: int | None = None,
    sampling: Sampling | None = None,
) -> list[list[int]]:
    """The ids of the targets to B sources (B, S) of kept tokens `keep`, without `<eos>`; greedy without `sampling`.

    A target has at most `max_tokens` tokens, `<eos>` included, and no more than the model reads. One generator draws
    for all rows. Raises ValueError or TypeError for a model that does not translate and for arguments that do not fit.
    """
    first, reading = _reading(model, source, keep, eos)
    sampling = require_sampling(Sampling(temperature=0.0) if sampling is None else sampling)
    rows: list[list[int]] = [[] for _ in range(len(first))]
    running = set(range(len(rows)))
    for token in draw_tokens(model, reading, first, _max_length(model, max_tokens), sampling):
        ids = token.ids.tolist()
        running -= {row for row in running if ids[row] == eos}
        if not running:
            break
        for row in running:
            rows[row].append(ids[row])
    return rows


def translate_best(
    model: Model,
    source: Ids,
    keep: Keep | None = None,
    *,
    eos: int,
    max_tokens: int | None = None,
    beams: Beams | None = None,
) -> list[list[Hypothesis]]:
    """The best targets to B sources (B, S) of kept tokens `keep`, by a beam search, the highest score first.

    Lengths and errors are those of `translate`; ValueError for more beams than the vocabulary has entries too.
    """
    first, reading = _reading(model, source, keep, eos)
    beams = require_beams(model, Beams() if beams is None else beams)
    with Rest(model):
        return search(reading, reading.prompt(first), _max_length(model, max_tokens), beams, eos)


def _reading(model: Model, source: Any, keep: Keep | None, eos: int) -> tuple[Ids, Translating]:
    """The first tokens of the targets, and the reader of their sources."""
    require_translates(model)
    count("eos", eos)
    check_rows("sources", source, model.config.vocab)
    longest = _max_length(model, None)
    if source.shape[1] == 0:
        raise ValueError("the source is empty: give at least one token")
    if source.shape[1] > longest:
        raise ValueError(f"the source has {source.shape[1]} tokens with its end, the model reads at most {longest}")
    if keep is not None:
        mask(keep, source)
        if not bool(keep.any(1).all()):
            raise ValueError("a source has no token that is kept: keep at least one of each row")
        keep = keep.to(model.device)
    source = source.to(model.device)
    first = torch.full((len(source), 1), eos, dtype=torch.long, device=model.device)
    return first, Translating(model, source, keep)


def _max_length(model: Model, max_tokens: int | None) -> int:
    """The most tokens that a target may have."""
    if max_tokens is not None:
        count("max_tokens", max_tokens, least=1)
    limits = [limit for limit in (max_tokens, model.traits.longest, model.config.context) if limit is not None]
    return min(limits)

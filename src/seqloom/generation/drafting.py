"""A small model drafts tokens, which a large one reads at once; what does not hold is taken back.

exact, or speculative sampling, of drafts y ~ q, with p the large model's distribution:

    y_i stays with probability min(1, p_i(y_i) / q_i(y_i)),   else   y_i ~ max(p_i - q_i, 0) / Σ max(p_i - q_i, 0)
    and the drafts after it are dropped;    where all stay, one further token ~ p

Big-Little decoding, by a confidence c and a bound r:

    the small model drafts while max q_i ≥ c
    the first y_i with -ln p_i(y_i) > r, and the drafts after it, are dropped;   the next token ~ p

p and q are as drawn from (temperature, top-k, top-p); c and r are of the models' own predictions, at temperature 1. The
exact form's texts have the large model's distribution for any small one; Big-Little's do not.

Source: Leviathan et al., arXiv:2211.17192, Algorithm 1; Kim et al., Big-Little decoding, arXiv:2302.07863, section 3.
The number of drafts is bounded there, too, in the second.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor

from seqloom.core.arguments import describe_value
from seqloom.core.config import Config
from seqloom.core.model import Model, require_generates
from seqloom.core.rest import Rest
from seqloom.generation.ahead import Ahead, ahead
from seqloom.generation.modes import Mode, checked_mode, default_mode, window
from seqloom.generation.penalties import Seen
from seqloom.generation.sample import Sampling, pick, probabilities


@final
class Draft(Config):
    """A small model that drafts for another; with `confidence` or `take_back`, as in Big-Little decoding."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    model: Any = Field(repr=False, description="the small model, with the same tokenizer")
    tokens: int = Field(4, ge=1, description="drafts at most, before the large model reads them")
    confidence: float | None = Field(
        None,
        ge=0,
        le=1,
        description="probability of its likeliest token below which the small model asks the large one",
    )
    take_back: float | None = Field(
        None,
        ge=0,
        allow_inf_nan=True,
        description="nats of a draft under the large model, above which it is taken back",
    )

    @model_validator(mode="after")
    def _generates(self) -> "Draft":
        if not isinstance(self.model, Model):
            raise ValueError(
                f"a draft has a model that seqloom.decoder or seqloom.load gives, not {describe_value(self.model)}"
            )
        require_generates(self.model, "draft text")
        return self

    @property
    def exact(self) -> bool:
        """Whether texts have the distribution of the large model."""
        return self.confidence is None and self.take_back is None


@final
@dataclass
class Drafting:
    """A text that is written with a draft, and the counts of what came of the drafts."""

    draft: Draft
    drafted: int = 0
    stayed: int = 0
    """accepted drafts"""
    readings: int = 0
    """readings of the large model"""
    written: int = 0
    differing: int = 0
    """accepted drafts that are not the large model's likeliest token"""

    def report(self, prompt: str = "", text: str = "") -> str:
        """In words: how many drafts there were, and the share that was accepted."""
        share = f"{self.stayed / max(self.drafted, 1):.0%}"
        differing = "" if self.draft.exact else f", {self.differing:,} of which it would have written otherwise"
        return (
            f"{self.written:,} tokens in {self.readings:,} readings of the large model; "
            f"{self.stayed:,} of {self.drafted:,} drafts stayed ({share}){differing}"
        )


def require_draft(draft: Any, model: Model) -> None:
    """Raises TypeError unless it is a Draft, and ValueError where its model does not fit `model`."""
    if not isinstance(draft, Draft):
        raise TypeError(f"draft is a seqloom.generation.drafting.Draft, not {describe_value(draft)}")
    large, small = (getattr(each_model.tokenizer, "json", None) for each_model in (model, draft.model))
    other_tokenizer = large is not None and small is not None and large != small
    if model.config.vocab != draft.model.config.vocab or other_tokenizer:
        raise ValueError("the draft model has another tokenizer: train it with --set data.tokenizer of the large one")


def draw_with_draft(
    model: Model,
    prompt: list[int],
    drafting: Drafting,
    *,
    max_tokens: int,
    mode: Mode | None,
    hop: int,
    sampling: Sampling,
) -> Iterator[int]:
    """Writes `max_tokens` ids after a prompt, and counts in `drafting` what came of the drafts.

    In mode `slide` the small model slides over its own context; without a mode each model has its default one.
    ValueError at the call where a model cannot write a text of this length in that mode.
    """
    draft = drafting.draft
    require_draft(draft, model)
    large_mode = checked_mode(model, mode, hop, len(prompt), max_tokens)
    small_mode = default_mode(draft.model, hop) if mode is None else mode
    small_hop = min(hop, window(draft.model)) if small_mode == "slide" else hop
    checked_mode(draft.model, small_mode, small_hop, len(prompt), max_tokens)
    modes = ((large_mode, hop), (small_mode, small_hop))
    return _draw_rounds(model, drafting, prompt, max_tokens, modes, sampling)


def _draw_rounds(
    model: Model,
    drafting: Drafting,
    prompt: list[int],
    max_tokens: int,
    modes: tuple[tuple[Mode, int], tuple[Mode, int]],
    sampling: Sampling,
) -> Iterator[int]:
    """`draw_with_draft`, with checked arguments: draft, read the drafts, accept some, and so on.

    `modes` are the mode and the hop of the large model and of the small one.
    """
    draft = drafting.draft
    rest = Rest(model, draft.model)
    generator = sampling.generator()
    seen = Seen.after(torch.tensor([prompt]), model.config.vocab) if sampling.penalizes else None
    remaining = max_tokens
    with rest:
        large, small = (ahead(reading, prompt, *how) for reading, how in zip((model, draft.model), modes, strict=True))
    while remaining:
        with rest:
            ids, q = _draft_ids(small, draft, min(draft.tokens, remaining - 1), sampling, generator, seen)
            logits = large.predict(ids)
            p = probabilities(logits, sampling, None if seen is None else seen.along(ids))
            accept = _accept_exactly if draft.exact else _accept_by_bound
            accepted, last = accept(logits, p, q, ids, draft, generator)
            new = [*ids[:accepted], last]
            seen = None if seen is None else seen.along(new).rows(slice(len(new), None))
            if remaining > len(new):
                large.keep(new)
                small.keep(new)
        drafting.drafted += len(ids)
        drafting.readings += 1
        remaining -= len(new)
        likeliest = logits[: len(new)].argmax(1).tolist()
        for number, (id, likely) in enumerate(zip(new, likeliest, strict=True)):
            drafting.written += 1  # one by one: whoever reads the ids may stop at any of them
            if number < accepted:
                drafting.stayed += 1
                drafting.differing += likely != id
            yield id


def _draft_ids(
    small: Ahead, draft: Draft, limit: int, sampling: Sampling, generator: torch.Generator, seen: Seen | None
) -> tuple[list[int], list[Tensor]]:
    """Up to `limit` ids of the small model, and the distribution q_i (W) that each was drawn from."""
    ids: list[int] = []
    distributions: list[Tensor] = []
    while len(ids) < limit:
        logits = small.predict(ids, len(ids))
        if draft.confidence is not None and float(logits.double().softmax(1).max()) < draft.confidence:
            break
        distributions.append(probabilities(logits, sampling, seen)[0])
        ids.append(_draw(distributions[-1], generator))
        seen = None if seen is None else seen.add(torch.tensor(ids[-1:]))
    return ids, distributions


def _accept_exactly(
    logits: Tensor, p: Tensor, q: list[Tensor], ids: list[int], draft: Draft, generator: torch.Generator
) -> tuple[int, int]:
    """How many drafts are accepted by speculative sampling, and the token after them.

    `logits` and `p` (n + 1, W) are the large model's after 0 to n drafts, `q` the n distributions of the drafts `ids`.
    """
    for number, (id, q_i) in enumerate(zip(ids, q, strict=True)):
        u = float(torch.rand((), dtype=torch.float64, generator=generator))
        if u * q_i[id] >= p[number, id]:  # rejected: u ≥ p_i / q_i
            return number, _draw((p[number] - q_i).clamp(min=0), generator)
    return len(ids), _draw(p[len(ids)], generator)


def _accept_by_bound(
    logits: Tensor, p: Tensor, q: list[Tensor], ids: list[int], draft: Draft, generator: torch.Generator
) -> tuple[int, int]:
    """As `_accept_exactly`, but drafts are accepted up to the first whose nats exceed the bound `take_back`."""
    nats = -logits.double().log_softmax(1).cpu()
    bound = float("inf") if draft.take_back is None else draft.take_back
    accepted = next((number for number, id in enumerate(ids) if nats[number, id] > bound), len(ids))
    return accepted, _draw(p[accepted], generator)


def _draw(weights: Float[Tensor, " W"], generator: torch.Generator) -> int:
    """An id with probability in proportion to its weight."""
    return int(pick(weights[None], torch.rand(1, 1, dtype=torch.float64, generator=generator)))

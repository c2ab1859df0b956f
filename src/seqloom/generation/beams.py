"""Beam search: the likeliest continuations y of a text x, K hypotheses of each text side by side.

    score(y) = log p(y | x) / ((5 + |y|) / 6)^α            |y| counts <eos>;  α: `length_penalty`, 0 for none
    repeat:  of all K·W continuations by one token, those that end in <eos> close,  the K likeliest others stay open

The result is the closed hypotheses of the highest scores, and at `max_tokens` the open ones among them. The search ends
early once no open hypothesis can reach the scores of the closed ones: log p only falls, and the penalty that divides
it is at most that of `max_tokens`. The model reads each token once: its state is reordered to the rows that stay.

Source: Wu et al., Google's Neural Machine Translation System, arXiv:1609.08144, Eq. 14, of which α alone is here (no
coverage); α = 0.6 and 4 beams are Vaswani et al.'s, arXiv:1706.03762, section 6.1. GNMT prunes by a margin of the score
too; here nothing is pruned but by rank.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float
from pydantic import Field, model_validator
from torch import Tensor

from seqloom.core.arguments import count, describe_value
from seqloom.core.config import Config
from seqloom.core.largest import largest
from seqloom.core.model import Model
from seqloom.core.rest import Rest
from seqloom.core.shapes import Ids
from seqloom.generation.draws import check_prompts
from seqloom.generation.modes import Mode, Reader, reader


@final
class Beams(Config):
    """The settings of a beam search."""

    beams: int = Field(4, ge=1, description="K, the number of hypotheses per text")
    best: int = Field(1, ge=1, description="results per text, at most the number of beams")
    length_penalty: float = Field(0.6, ge=0, le=100, description="α; 0 ranks by probability, which favors short texts")

    @model_validator(mode="after")
    def _fit(self) -> "Beams":
        if self.best > self.beams:
            raise ValueError(f"best={self.best} results need as many beams, and there are {self.beams}: raise beams")
        return self


@final
@dataclass(frozen=True)
class Hypothesis:
    """One continuation."""

    ids: list[int]
    """the tokens of the hypothesis, without `<eos>`"""
    log_probability: float
    """log p(y | x) in nats, that of `<eos>` included where it has ended"""
    score: float
    """what results are ranked by"""
    ended: bool
    """whether it ended in `<eos>`"""


def beam_search(
    model: Model,
    prompts: Ids,
    *,
    max_tokens: int,
    beams: Beams | None = None,
    mode: Mode | None = None,
    hop: int = 1,
    eos: int | None = None,
) -> list[list[Hypothesis]]:
    """The best continuations of each of B prompts (B, T), the highest score first: `beams.best` of them.

    Fewer where the vocabulary has fewer. Without `eos` each has `max_tokens` tokens. Raises ValueError or TypeError as
    `seqloom.generation.draws.tokens` does, and ValueError for more beams than the vocabulary has entries.
    """
    check_prompts(model, prompts)
    beams = require_beams(model, Beams() if beams is None else beams)
    if eos is not None:
        count("eos", eos)
    reading = reader(model, mode, hop, prompts.shape[1], max_tokens)
    with Rest(model):
        return search(reading, reading.prompt(prompts.to(model.device)), max_tokens, beams, eos)


def require_beams(model: Model, beams: Any) -> Beams:
    """The settings; TypeError unless they are `Beams`, ValueError for more beams than the model's vocabulary has."""
    if not isinstance(beams, Beams):
        raise TypeError(f"beams is a seqloom.generation.beams.Beams, not {describe_value(beams)}")
    vocab = model.config.vocab
    if beams.beams > vocab:
        raise ValueError(f"{beams.beams} beams are more than the vocabulary has entries: at most {vocab}")
    return beams


def search(
    reading: Reader, logits: Float[Tensor, "B W"], max_tokens: int, beams: Beams, eos: int | None
) -> list[list[Hypothesis]]:
    """The best continuations of B texts, given their reader after the prompts and the logits of their next tokens."""
    B, W = logits.shape
    K = beams.beams
    device = logits.device
    copies = torch.arange(B).repeat_interleave(K)  # each text K times
    reading.choose(copies.to(device))
    log_p = _log_probabilities(logits)[copies].view(B, K, W)
    total = torch.full((B, K), -torch.inf, dtype=torch.float64)  # log p of each open hypothesis (B, K)
    total[:, 0] = 0.0  # all K rows of a text are equal: one of them is enough
    texts = torch.zeros(B, K, 0, dtype=torch.long)
    closed: list[list[Hypothesis]] = [[] for _ in range(B)]
    for length in range(1, max_tokens + 1):
        continued = (total[:, :, None] + log_p).flatten(1)  # (B, K·W)
        if eos is not None and eos < W:
            ending = continued[:, eos::W]  # (B, K): log p of each hypothesis with <eos> as its next token
            for row in range(B):
                ended = ((texts[row, k], float(ending[row, k]), True) for k in range(K))
                closed[row] = _rank_hypotheses(closed[row], ended, length, beams)
            continued[:, eos::W] = -torch.inf
        total, chosen = largest(continued, K)
        parents = chosen // W  # the hypotheses that are continued (B, K)
        ids = chosen % W  # and their next tokens (B, K)
        parent_texts = texts.gather(1, parents[:, :, None].expand(-1, -1, length - 1))
        texts = torch.cat([parent_texts, ids[:, :, None]], 2)
        if length == max_tokens or _is_settled(closed, total, max_tokens, beams):
            break
        rows = (parents + K * torch.arange(B)[:, None]).flatten()
        if not torch.equal(rows, torch.arange(B * K)):
            reading.choose(rows.to(device))
        log_p = _log_probabilities(reading.token(ids.flatten().to(device))).view(B, K, W)
    for row in range(B):
        unended = ((texts[row, k], float(total[row, k]), False) for k in range(K))
        closed[row] = _rank_hypotheses(closed[row], unended if length == max_tokens else (), length, beams)
    return [hypotheses[: beams.best] for hypotheses in closed]


def penalty(length: int, alpha: float) -> float:
    """What log p of `length` tokens is divided by."""
    return float(((5 + length) / 6) ** alpha)


def _log_probabilities(logits: Float[Tensor, "N W"]) -> Float[Tensor, "N W"]:
    """Log-probabilities in float64 on the CPU, so that ranks do not depend on the device. ValueError if not finite."""
    logits = logits.detach().to("cpu", torch.float64)
    if not bool(logits.amax(1).isfinite().all()):
        raise ValueError("the model's logits are not finite, so no token can be ranked: load an earlier checkpoint")
    return logits.log_softmax(1)


def _rank_hypotheses(
    closed: list[Hypothesis], candidates: Iterable[tuple[Tensor, float, bool]], length: int, beams: Beams
) -> list[Hypothesis]:
    """The best K of the closed hypotheses and of the candidates.

    A candidate is a text of `length` tokens, `<eos>` included, with its log p and whether it ended in `<eos>`.
    """
    scale = penalty(length, beams.length_penalty)
    for ids, log_p, ended in candidates:
        if log_p > -torch.inf and (len(closed) < beams.beams or log_p / scale > closed[-1].score):
            closed = [*closed, Hypothesis(ids.tolist(), log_p, log_p / scale, ended)]
            closed = sorted(closed, key=lambda hypothesis: -hypothesis.score)[: beams.beams]
    return closed


def _is_settled(closed: list[list[Hypothesis]], total: Float[Tensor, "B K"], max_tokens: int, beams: Beams) -> bool:
    """Whether no open hypothesis can still reach a score that is among the `best` of its text."""
    bounds = (total.amax(1) / penalty(max_tokens, beams.length_penalty)).tolist()
    return all(
        len(hypotheses) >= beams.best and hypotheses[beams.best - 1].score >= bound
        for hypotheses, bound in zip(closed, bounds, strict=True)
    )

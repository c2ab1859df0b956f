"""Text from the grammar of `stories`: a lower bound of the held-out loss, and which sentences are grammatical."""

from dataclasses import dataclass
from typing import Protocol, final

import torch

from seqloom.core.arguments import count, describe_value
from seqloom.core.config import read
from seqloom.core.model import Model, require_generates
from seqloom.data.stories import agreement, grammatical_share, log_probability
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import require_tokens
from seqloom.generation.decode import generate_ids
from seqloom.generation.sample import Sampling


class Decodes(Protocol):
    """The method of a tokenizer that decodes ids."""

    def decode(self, ids: list[int]) -> str:
        """The text of the ids."""


def floor(tokens: Tokens, tokenizer: Decodes) -> float | None:
    """A lower bound of the held-out loss in nats per token: -log p of each derivation; None for other text.

    It is a bound in expectation: on a finite text a model can be below it by sampling noise.
    """
    require_tokens(tokens)
    if not callable(getattr(tokenizer, "decode", None)):
        raise TypeError(
            f"tokenizer decodes ids, as seqloom.data.tokenizer.Tokenizer does, not {describe_value(tokenizer)}"
        )
    nats = 0.0
    for first, end in zip(tokens.starts, tokens.ends, strict=True):
        try:
            nats -= log_probability(tokenizer.decode(tokens.ids[first : end - 1].tolist()))
        except ValueError:
            return None
    return nats / len(tokens)


@final
@dataclass(frozen=True)
class Judged:
    """Counts of the complete sentences that a model wrote."""

    written: int
    """all of them"""
    grammatical: int
    """those of the grammar"""
    agreeing: int
    """those of the grammar that are consistent with their story so far"""


def judge_stories(model: Model, *, stories: int, tokens: int, top_p: float, seed: int = 0) -> Judged:
    """Judges `stories` texts of at most `tokens` tokens that the model writes in one batch, each starting after an
    `<eos>`.

    Whatever the model's default mode, it writes in `slide`: what is judged follows from a window as in training. A full
    window drops a quarter of its tokens at once, so that it is reread less often.
    """
    require_generates(model)
    if model.tokenizer is None:
        raise ValueError("the model has no tokenizer to write text with: set model.tokenizer")
    count("stories", stories, least=1)
    count("tokens", tokens, least=1)
    sampling: Sampling = read(Sampling, {"top_p": top_p, "seed": seed})
    eos = int(model.tokenizer.eos)
    prompts = torch.full((stories, 1), eos)
    hop = max(1, model.config.context // 4)
    rows = generate_ids(model, prompts, max_tokens=tokens, mode="slide", hop=hop, sampling=sampling, eos=eos)
    texts = [model.tokenizer.decode(row) for row in rows]
    counts_by_text = [(*grammatical_share(text), agreement(text)[0]) for text in texts]
    grammatical, written, agreeing = (sum(counts) for counts in zip(*counts_by_text, strict=True))
    return Judged(written, grammatical, agreeing)

"""Texts that a `Batcher` is asked for: what each has so far, and why it ended."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.model import Model
from seqloom.generation.penalties import Seen
from seqloom.generation.sample import Sampling
from seqloom.generation.text import TextCutter

End: TypeAlias = Literal["eos", "stop", "length", "cancelled", "late", "failed"]


@final
@dataclass(frozen=True)
class Token:
    """One token of a text, with what the model made of it."""

    id: int
    text: str
    """the whole characters that are certain after it; often none"""
    log_p: float | None = None
    """ln p of the token, at temperature 1 and before cuts and penalties; None unless asked for"""
    others: tuple[tuple[int, float], ...] = ()
    """the likeliest ids at its place with their ln p, as many as were asked for"""


@final
@dataclass(eq=False)
class Request:
    """One text: its settings, and its tokens so far."""

    prompt: list[int]
    max_tokens: int
    sampling: Sampling
    eos: int | None = None
    """the id that ends the text, which is not given"""
    cutter: TextCutter | None = None
    """decodes the ids and finds stop strings; without it a token's text is empty"""
    others: int | None = None
    """how many of the likeliest ids each token has with it; None: no probabilities at all"""
    deadline: float | None = None
    """by the batcher's clock"""
    tokens: list[Token] = field(default_factory=list)
    rest: str = ""
    """the text after the last token that was still held back, once it has ended"""
    end: End | None = None
    """why it ended"""
    error: str = ""
    """what went wrong, where it failed"""
    cancelled: bool = False
    """set by `cancel`; the batcher ends it before its next token"""

    model: Model | None = field(default=None, repr=False)
    """the model that writes it, once it was submitted"""

    def __post_init__(self) -> None:
        self.generator = self.sampling.generator()
        self.plain = self.sampling.model_copy(update={"seed": 0})
        """the settings without the seed, by which texts are drawn together"""
        self.seen: Seen | None = None

    @property
    def ids(self) -> list[int]:
        """The new ids so far."""
        return [token.id for token in self.tokens]

    @property
    def text(self) -> str:
        """The new text so far."""
        return "".join(token.text for token in self.tokens) + self.rest

    def cancel(self) -> None:
        """Asks for no further token; from any thread."""
        self.cancelled = True

    def take(self, id: int, logits: Float[Tensor, " W"]) -> None:
        """Appends a token that was drawn from these logits, or ends the text."""
        if id == self.eos:
            self.finish("eos")
            return
        text = "" if self.cutter is None else self.cutter.push(id)
        log_p, others = self._probabilities(id, logits)
        self.tokens.append(Token(id, text, log_p, others))
        if self.seen is not None:
            self.seen = self.seen.add(torch.tensor([id]))
        if self.cutter is not None and self.cutter.ended:
            self.finish("stop")
        elif len(self.tokens) == self.max_tokens:
            self.finish("length")

    def finish(self, end: End, error: str = "") -> None:
        """Ends the text."""
        if self.cutter is not None and end != "stop":
            self.rest = self.cutter.finish()
        self.end = end
        self.error = error

    def _probabilities(self, id: int, logits: Tensor) -> tuple[float | None, tuple[tuple[int, float], ...]]:
        """ln p of the id, and the likeliest ids with theirs."""
        if self.others is None:
            return None, ()
        log_p = logits.double().log_softmax(0)
        best = log_p.topk(min(self.others, len(log_p)))
        return float(log_p[id]), tuple(zip(best.indices.tolist(), best.values.tolist(), strict=True))


def group_by_sampling(requests: Sequence[Request]) -> dict[Sampling, list[int]]:
    """The numbers of the requests by their settings without the seed: those of a group are drawn together."""
    groups: dict[Sampling, list[int]] = {}
    for number, request in enumerate(requests):
        groups.setdefault(request.plain, []).append(number)
    return groups

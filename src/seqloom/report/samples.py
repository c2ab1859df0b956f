"""Samples: the contenders' texts after the same prompt and seed, with the probability of every token."""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from seqloom.report.comparison import Comparison

EDGES = (0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 0.9)
"""the probabilities that separate the eight colors"""
STEPS = ("below 1%", "1–3%", "3–10%", "10–25%", "25–50%", "50–75%", "75–90%", "90% or more")
UNFINISHED = "\ufffd"


@final
@dataclass(frozen=True)
class Span:
    """A piece of text: a token, or the tokens that make one character. `step`: its color, 0 … 7."""

    text: str
    probability: float
    tokens: int

    @property
    def step(self) -> int:
        """The number of the color; 0 is the least probable."""
        return bisect_right(EDGES, self.probability)

    @property
    def share(self) -> str:
        """The probability as text: 42%, 0.031%."""
        share = f"{self.probability:.3g}" if self.probability < 0.0001 else f"{100 * self.probability:.3g}%"
        return share if self.tokens == 1 else f"{share}, {self.tokens} tokens"


@final
@dataclass(frozen=True)
class Sample:
    """The text of one contender."""

    name: str
    spans: list[Span]


@final
@dataclass(frozen=True)
class Prompted:
    """The texts of all contenders after one prompt, with the same seed."""

    prompt: str
    seed: int
    samples: list[Sample]


def samples_by_prompt(comparison: Comparison) -> list[Prompted]:
    """The samples by prompt and seed, in the order in which the contenders have them."""
    keys = list(
        dict.fromkeys(
            (sample.prompt, sample.seed) for contender in comparison.contenders for sample in contender.samples
        )
    )
    return [
        Prompted(
            prompt,
            seed,
            [
                Sample(contender.name, join_spans(sample.tokens))
                for contender in comparison.contenders
                for sample in contender.samples
                if (sample.prompt, sample.seed) == (prompt, seed)
            ],
        )
        for prompt, seed in keys
    ]


def join_spans(tokens: Sequence[tuple[str, float]]) -> list[Span]:
    """Tokens as spans: a token without a text of its own joins the next one that has one; probabilities are multiplied.

    A last character whose bytes are not complete is shown as U+FFFD.
    """
    spans: list[Span] = []
    product, count = 1.0, 0
    for text, probability in tokens:
        product, count = product * probability, count + 1
        if text:
            spans.append(Span(text, product, count))
            product, count = 1.0, 0
    return [*spans, Span(UNFINISHED, product, count)] if count else spans

"""Logits of tokens that a text has already: made less likely by a factor and by a difference.

    z_w = z_w / r   if z_w > 0,   z_w r   if z_w < 0        w in the prompt or written;  r: `repetition_penalty`
    z_w = z_w - a                                           w written;  a: `presence_penalty`

Source: r is Keskar et al., CTRL, arXiv:1909.05858, section 4.1, of which the division of negative logits is mended as
in later libraries; a is OpenAI's, of which the part by frequency is not here.
"""

from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqloom.core.shapes import Ids


@final
@dataclass
class Seen:
    """Which tokens B texts have."""

    read: Bool[Tensor, "B W"]
    """those of the prompt and those that were written"""
    written: Bool[Tensor, "B W"]

    @classmethod
    def after(cls, prompts: Ids, vocab: int) -> "Seen":
        """After prompts (B, T), on the CPU."""
        unseen = torch.zeros(len(prompts), vocab, dtype=torch.bool)
        return cls(unseen.scatter(1, prompts.cpu(), True), unseen)

    def add(self, ids: Int[Tensor, " B"]) -> "Seen":
        """After one further token of each text."""
        column = ids.cpu()[:, None]
        return Seen(self.read.scatter(1, column, True), self.written.scatter(1, column, True))

    def along(self, ids: list[int]) -> "Seen":
        """Of one text: a row after each of the first 0, 1, … tokens of `ids`."""
        rows = [self]
        for id in ids:
            rows.append(rows[-1].add(torch.tensor([id])))
        return Seen(torch.cat([row.read for row in rows]), torch.cat([row.written for row in rows]))

    def rows(self, chosen: "slice | Int[Tensor, ' N']") -> "Seen":
        """Of some of the texts."""
        return Seen(self.read[chosen], self.written[chosen])


def penalize(logits: Float[Tensor, "B W"], seen: Seen, repetition: float, presence: float) -> Float[Tensor, "B W"]:
    """The logits with both penalties; `repetition` is r and `presence` a."""
    divided = torch.where(logits > 0, logits / repetition, logits * repetition)
    divided = torch.where(seen.read, divided, logits)
    return torch.where(seen.written, divided - presence, divided)

"""Kept tokens moved to the front of their rows, and back; packed documents laid into rows of their own.

A mixer that reads packed rows never sees a dropped token: rows are padded on the right with zeros, and what a causal
mixer writes for a kept token cannot depend on the padding.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from seqloom.core.shapes import Keep, Lengths, Stream


def within(lengths: Lengths, T: int) -> Keep:
    """(B, T), True at the first `lengths` (B,) positions of each row: the tokens before the padding."""
    return torch.arange(T, device=lengths.device) < lengths[:, None]


@dataclass(frozen=True)
class Places:
    """Where the tokens of packed rows came from: what `unpack` needs."""

    order: Int[Tensor, "B T"]
    """the place that each packed place was taken from"""
    lengths: Lengths
    """kept tokens of each row"""

    @property
    def real(self) -> Keep:
        """(B, T), True where a packed row holds a token."""
        return within(self.lengths, self.order.shape[1])


def pack(x: Stream, keep: Keep) -> tuple[Stream, Places]:
    """The kept tokens of each row, in order, then zeros; whatever a dropped token held (even NaN) is gone."""
    order = torch.argsort(~keep, dim=1, stable=True)
    places = Places(order, keep.sum(1))
    rows = x.gather(1, order[:, :, None].expand_as(x))
    return torch.where(places.real[:, :, None], rows, 0.0), places


def unpack(rows: Stream, places: Places) -> Stream:
    """Packed rows back at their places, with 0 where a token was dropped."""
    rows = torch.where(places.real[:, :, None], rows, 0.0)
    return torch.zeros_like(rows).scatter(1, places.order[:, :, None].expand_as(rows), rows)


def separate(
    x: Shaped[Tensor, "B T D"], document: Int[Tensor, "B T"]
) -> tuple[Shaped[Tensor, "N M D"], Bool[Tensor, "N M"], tuple[Int[Tensor, " P"], Int[Tensor, " P"]]]:
    """Rows that hold several documents, one row a document: (N, M, D), its keep (N, M), and where tokens went.

    `document` (B, T) numbers the documents of a row; a negative number is padding. What comes back last is, for each
    real token in reading order, its document's row and its place there: `join` takes them.
    """
    real = document >= 0
    if not bool(real.any()):
        raise ValueError("no token belongs to a document: every entry of `document` is negative")
    row_of = torch.arange(len(document), device=x.device)[:, None].expand_as(document)
    key = row_of * (int(document.max()) + 1) + document
    _, number = torch.unique(key[real], return_inverse=True)
    counts = torch.bincount(number)
    order = torch.argsort(number, stable=True)
    first = torch.cumsum(counts, 0) - counts
    place = torch.empty_like(number)
    place[order] = torch.arange(len(number), device=x.device) - first[number[order]]
    rows = x.new_zeros(len(counts), int(counts.max()), x.shape[2]).index_put((number, place), x[real])
    keep = torch.arange(rows.shape[1], device=x.device) < counts[:, None]
    return rows, keep, (number, place)


def join(
    rows: Float[Tensor, "N M D"],
    document: Int[Tensor, "B T"],
    where: tuple[Int[Tensor, " P"], Int[Tensor, " P"]],
) -> Stream:
    """The documents of `separate` back in the rows that they came from (B, T, D), with 0 at padding."""
    real = document >= 0
    return rows.new_zeros(*document.shape, rows.shape[2]).masked_scatter(real[:, :, None], rows[where])


def by_length(document: Int[Tensor, "B T"]) -> list[Int[Tensor, "B T"]]:
    """`document`, with numbers below T, once for each group of documents of similar lengths, and -1 at all others.

    Lengths up to 2 are one group, those in (2^n + 1, 2^(n + 1) + 1] another for each n: laid out by `separate`, a
    group's rows are padded to at most twice their tokens, whatever the other lengths are. Empty where no token belongs
    to a document.
    """
    real = document >= 0
    number = document.clamp(min=0)
    counts = torch.zeros_like(document).scatter_add(1, number, real.long())
    length = counts.gather(1, number)
    group = torch.frexp((length - 2).clamp(min=0).double()).exponent  # bits of the number
    return [torch.where(real & (group == bits), document, -1) for bits in torch.unique(group[real]).tolist()]

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
class Packing:
    """The positions that the tokens of packed rows came from, for `unpack`."""

    order: Int[Tensor, "B T"]
    """the position that each packed position was taken from"""
    lengths: Lengths
    """kept tokens of each row"""

    @property
    def real(self) -> Keep:
        """(B, T), True where a packed row holds a token."""
        return within(self.lengths, self.order.shape[1])


def pack(x: Stream, keep: Keep) -> tuple[Stream, Packing]:
    """The kept tokens of each row, in order, then zeros; the values of dropped tokens (even NaN) are gone."""
    order = torch.argsort(~keep, dim=1, stable=True)
    packing = Packing(order, keep.sum(1))
    rows = x.gather(1, order[:, :, None].expand_as(x))
    return torch.where(packing.real[:, :, None], rows, 0.0), packing


def unpack(rows: Stream, packing: Packing) -> Stream:
    """Packed rows back at their positions, with 0 where a token was dropped."""
    rows = torch.where(packing.real[:, :, None], rows, 0.0)
    return torch.zeros_like(rows).scatter(1, packing.order[:, :, None].expand_as(rows), rows)


def separate(
    x: Shaped[Tensor, "B T D"], document: Int[Tensor, "B T"]
) -> tuple[Shaped[Tensor, "N M D"], Bool[Tensor, "N M"], tuple[Int[Tensor, " P"], Int[Tensor, " P"]]]:
    """Rows that hold several documents, one row a document: (N, M, D), its keep (N, M), and where tokens went.

    `document` (B, T) numbers the documents of a row; a negative number is padding. The last result
    has, for each real token in reading order, its document's row and its position there, for `join`.
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
    index = torch.empty_like(number)
    index[order] = torch.arange(len(number), device=x.device) - first[number[order]]
    rows = x.new_zeros(len(counts), int(counts.max()), x.shape[2]).index_put((number, index), x[real])
    keep = torch.arange(rows.shape[1], device=x.device) < counts[:, None]
    return rows, keep, (number, index)


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

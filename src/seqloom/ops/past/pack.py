"""Moves kept tokens to the front of their rows and back, and separates packed documents into rows.

A mixer that reads packed rows never reads a dropped token: rows are padded on the right with zeros, and the output of a
causal mixer at a kept token does not depend on the padding.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

from seqloom.core.shapes import Keep, Lengths, Stream


def within(lengths: Lengths, T: int) -> Keep:
    """(B, T), True at the first `lengths` (B,) positions of each row: the tokens before the padding."""
    return torch.arange(T, device=lengths.device) < lengths[:, None]


class Packing(NamedTuple):
    """The positions from which the tokens of packed rows were taken, for `unpack`."""

    order: Int[Tensor, "B T"]
    """the position that each packed position was taken from"""
    lengths: Lengths
    """kept tokens of each row"""

    @property
    def real(self) -> Keep:
        """(B, T), True where a packed row holds a token."""
        return within(self.lengths, self.order.shape[1])


def pack(x: Stream, keep: Keep) -> tuple[Stream, Packing]:
    """The kept tokens of each row in order, then zeros; values of dropped tokens, even NaN, have no effect."""
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
    """Separates rows that hold several documents into one row per document: (N, M, D), with its keep (N, M).

    `document` (B, T) numbers the documents of a row; a negative number is padding. The last result, for `join`, has for
    each token that is not padding, in reading order, the row of its document and its position there.
    """
    real = document >= 0
    if not bool(real.any()):
        raise ValueError("no token belongs to a document: every entry of `document` is negative")
    packed_row = torch.arange(len(document), device=x.device)[:, None].expand_as(document)
    key = packed_row * (int(document.max()) + 1) + document  # tells documents of different rows apart
    _, row = torch.unique(key[real], return_inverse=True)  # the row of each token's document
    counts = torch.bincount(row)
    order = torch.argsort(row, stable=True)
    first = torch.cumsum(counts, 0) - counts  # the index in `order` of each document's first token
    position = torch.empty_like(row)
    position[order] = torch.arange(len(row), device=x.device) - first[row[order]]
    rows = x.new_zeros(len(counts), int(counts.max()), x.shape[2]).index_put((row, position), x[real])
    keep = torch.arange(rows.shape[1], device=x.device) < counts[:, None]
    return rows, keep, (row, position)


def join(
    rows: Float[Tensor, "N M D"],
    document: Int[Tensor, "B T"],
    where: tuple[Int[Tensor, " P"], Int[Tensor, " P"]],
) -> Stream:
    """The inverse of `separate`: the rows (B, T, D) that the documents came from, with 0 at padding."""
    real = document >= 0
    return rows.new_zeros(*document.shape, rows.shape[2]).masked_scatter(real[:, :, None], rows[where])


def by_length(document: Int[Tensor, "B T"]) -> list[Int[Tensor, "B T"]]:
    """Groups documents by length: copies of `document` (numbers below T), each with -1 outside of one group.

    Lengths up to 2 are one group, and lengths in (2^n + 1, 2^(n + 1) + 1] one group for each n. So `separate` pads the
    rows of a group to at most twice their tokens. Empty where no token belongs to a document.
    """
    real = document >= 0
    index = document.clamp(min=0)
    counts = torch.zeros_like(document).scatter_add(1, index, real.long())
    length = counts.gather(1, index)  # of each token's document
    group = torch.frexp((length - 2).clamp(min=0).double()).exponent  # n + 1 of the interval, 0 for up to 2
    return [torch.where(real & (group == exponent), document, -1) for exponent in torch.unique(group[real]).tolist()]

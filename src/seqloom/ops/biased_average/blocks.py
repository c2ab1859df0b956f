"""The biased average by products with the matrix of e^b, for any biases; the matrix has T² numbers."""

import torch
from torch import Tensor

from seqloom.ops.biased_average import divide_and_conquer
from seqloom.ops.biased_average.total import Past, Total


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None) -> Tensor:
    """See `seqloom.ops.biased_average.average`."""
    return divide_and_conquer.average(k, v, bias, past, total, _reader)


def _reader(
    b: Tensor, floor: Tensor, positions: int, before: int
) -> tuple[divide_and_conquer.Read, divide_and_conquer.Read]:
    matrix = _square(b, floor, positions, before).exp()  # (#B, #K, positions, before + positions)
    here = matrix[..., before:]

    def past(e: Tensor, count: int) -> Tensor:
        return _product(matrix[:, None, :, :count, :before], e)

    def left(e: Tensor, count: int) -> Tensor:
        cut = here.unflatten(3, (-1, 2 * count)).unflatten(2, (-1, 2 * count))
        return _product(cut[:, :, :, count:, :, :count].diagonal(dim1=2, dim2=4).movedim(-1, 1), e)

    return past, left


def _square(b: Tensor, floor: Tensor, positions: int, before: int) -> Tensor:
    """Biases by position and key, from those by position and lag; `floor` beyond the last lag."""
    L, at = b.shape[2], torch.arange(before + positions, device=b.device)
    lag = at[before:, None] - at
    by_lag = b.permute(0, 3, 1, 2).expand(-1, -1, positions, -1)
    result = by_lag.gather(3, lag.clamp(0, L - 1).expand(*by_lag.shape[:2], -1, -1))
    return torch.where(lag < L, result, floor.mT[..., None])


def _product(matrix: Tensor, e: Tensor) -> Tensor:
    """(#B, n, #K, N, S) by (B, n, S, K, V) → (B, n, N, K, V)."""
    if matrix.shape[2] > 1:
        return torch.einsum("bnkts,bnskv->bntkv", matrix.expand(len(e), -1, -1, -1, -1), e)
    if len(matrix) > 1:
        flat = matrix[:, :, 0] @ e.flatten(3)
    else:  # one matrix for all rows: the rows of the batch become columns of one product
        flat = torch.einsum("nts,bnsc->bntc", matrix[0, :, 0], e.flatten(3))
    return flat.unflatten(3, e.shape[3:])

"""The biased average by products with the matrix of e^b, for any biases; the matrix has T² numbers."""

import torch
from torch import Tensor

from seqloom.ops.biased_average import divide_and_conquer
from seqloom.ops.biased_average.total import Past, Total


def average(k: Tensor, v: Tensor, bias: Tensor, past: Past | None, total: Total | None) -> Tensor:
    """See `seqloom.ops.biased_average.average`."""
    return divide_and_conquer.average(k, v, bias, past, total, _reader)


def _reader(
    b: Tensor, zero_bias: Tensor, positions: int, past_tokens: int
) -> tuple[divide_and_conquer.Read, divide_and_conquer.Read]:
    matrix = _by_position_and_key(b, zero_bias, positions, past_tokens).exp()  # (#B, #K, T, past + T)
    own_matrix = matrix[..., past_tokens:]

    def read_past(e: Tensor, count: int) -> Tensor:
        return _product(matrix[:, None, :, :count, :past_tokens], e)

    def read_left(e: Tensor, count: int) -> Tensor:
        tiles = own_matrix.unflatten(3, (-1, 2 * count)).unflatten(2, (-1, 2 * count))
        right_by_left = tiles[:, :, :, count:, :, :count].diagonal(dim1=2, dim2=4)  # (#B, #K, count, count, n)
        return _product(right_by_left.movedim(-1, 1), e)

    return read_past, read_left


def _by_position_and_key(b: Tensor, zero_bias: Tensor, positions: int, past_tokens: int) -> Tensor:
    """Biases by position and key, from those by position and lag; `zero_bias` beyond the last lag."""
    L = b.shape[2]
    key_position = torch.arange(past_tokens + positions, device=b.device)
    lag = key_position[past_tokens:, None] - key_position
    by_lag = b.permute(0, 3, 1, 2).expand(-1, -1, positions, -1)
    by_key = by_lag.gather(3, lag.clamp(0, L - 1).expand(*by_lag.shape[:2], -1, -1))
    return torch.where(lag < L, by_key, zero_bias.mT[..., None])


def _product(matrix: Tensor, e: Tensor) -> Tensor:
    """Matrices (#B, n, #K, N, S) of n blocks times their weighted values (B, n, S, K, V) → (B, n, N, K, V)."""
    if matrix.shape[2] > 1:
        return torch.einsum("bnkts,bnskv->bntkv", matrix.expand(len(e), -1, -1, -1, -1), e)
    if len(matrix) > 1:
        flat = matrix[:, :, 0] @ e.flatten(3)
    else:  # one matrix for all rows: the rows of the batch become columns of one product
        flat = torch.einsum("nts,bnsc->bntc", matrix[0, :, 0], e.flatten(3))
    return flat.unflatten(3, e.shape[3:])

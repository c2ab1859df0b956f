"""The equation as it is written, row by row and column by column, and its price, counted from it; slow.

The price has an exponential per entry, then sums and divisions of rows and columns.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Step


def balance_matrix(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """See `balance_matrix` of the package."""
    keep = keep.expand_as(z)
    pairs = zip(z.flatten(0, 1), keep.flatten(0, 1), strict=True)
    matrices = [_matrix(z_matrix, keep_matrix, steps, columns) for z_matrix, keep_matrix in pairs]
    return torch.stack(matrices).view_as(z) if matrices else z.clone()


def _matrix(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """One balanced matrix (N, M)."""
    N, M = z.shape
    entries = {(i, j): z[i, j].exp() for i in range(N) for j in range(M) if keep[i, j]}
    for _ in range(steps if columns else 1):
        entries = _normalize_entries(entries, 0)
        entries = _normalize_entries(entries, 1) if columns else entries
    zero = torch.zeros((), dtype=z.dtype, device=z.device)
    rows = [torch.stack([entries.get((i, j), zero) for j in range(M)]) for i in range(N)]
    return torch.stack(rows) if rows and M else z.clone()


def _normalize_entries(entries: dict[tuple[int, int], Tensor], axis: int) -> dict[tuple[int, int], Tensor]:
    """Every entry divided by the sum of the entries with the same index on an axis."""
    lines: dict[int, list[Tensor]] = {}  # the entries of each row, or of each column
    for index, entry in entries.items():
        lines.setdefault(index[axis], []).append(entry)
    sums = {line: torch.stack(line_entries).sum() for line, line_entries in lines.items()}
    return {index: entry / sums[index[axis]] for index, entry in entries.items()}


def price(entries: int, rows: int, columns: int, steps: int) -> Cost:
    """The price of balancing `entries` numbers in non-empty rows and columns `steps` times; with 0 steps, rows only."""
    row_steps, column_steps = max(steps, 1), steps
    sums = row_steps * (entries - rows) + column_steps * (entries - columns)
    normalization: tuple[Step, ...] = ("cumulation", "division")
    path: tuple[Step, ...] = ("exponentiation", *normalization * (row_steps + column_steps))
    return Cost(add=sums, div=(row_steps + column_steps) * entries, exp=entries, path=path)

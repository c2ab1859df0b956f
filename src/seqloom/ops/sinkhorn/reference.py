"""The equation as it is written, row by row and column by column, and its price, counted from it; slow.

The price has an exponential per entry, then sums and divisions of rows and columns.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Step


def balanced(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """See `balanced` of the package."""
    keep = keep.expand_as(z)
    matrices = [_matrix(a, there, steps, columns) for a, there in zip(z.flatten(0, 1), keep.flatten(0, 1), strict=True)]
    return torch.stack(matrices).view_as(z) if matrices else z.clone()


def _matrix(z: Tensor, keep: Tensor, steps: int, columns: bool) -> Tensor:
    """One matrix (N, M)."""
    N, M = z.shape
    entries = {(i, j): z[i, j].exp() for i in range(N) for j in range(M) if keep[i, j]}
    for _ in range(steps if columns else 1):
        entries = _normalized(entries, 0)
        entries = _normalized(entries, 1) if columns else entries
    zero = torch.zeros((), dtype=z.dtype, device=z.device)
    rows = [torch.stack([entries.get((i, j), zero) for j in range(M)]) for i in range(N)]
    return torch.stack(rows) if rows and M else z.clone()


def _normalized(entries: dict[tuple[int, int], Tensor], axis: int) -> dict[tuple[int, int], Tensor]:
    """Every entry divided by the sum of the entries with the same index on an axis."""
    lines: dict[int, list[Tensor]] = {}
    for index, entry in entries.items():
        lines.setdefault(index[axis], []).append(entry)
    sums = {line: torch.stack(of).sum() for line, of in lines.items()}
    return {index: entry / sums[index[axis]] for index, entry in entries.items()}


def price(entries: int, rows: int, columns: int, steps: int) -> Cost:
    """The price of balancing `entries` numbers in non-empty rows and columns `steps` times; with 0 steps, rows only."""
    turns = max(steps, 1)
    sums = turns * (entries - rows) + (steps * (entries - columns) if steps else 0)
    normalized: tuple[Step, ...] = ("cumulation", "division")
    path: tuple[Step, ...] = ("exponentiation", *normalized * (turns + steps))
    return Cost(add=sums, div=(turns + steps) * entries, exp=entries, path=path)

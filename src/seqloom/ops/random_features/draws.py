"""Random directions: rows of N(0, 1), independent or orthogonal to each other, and the seed of the next draw.

An orthogonal block is Q of a QR decomposition of K×K normal numbers, with each row scaled to the length of a normal
vector: every row has the distribution N(0, 1), and rows are orthogonal inside a block of K.

Source: Yu et al., arXiv:1610.09072, section 3, used by Choromanski et al., arXiv:2009.14794, section 3.3. The signs
of Q are corrected by the diagonal of R, without which Q is not uniform (for K = 1 it would always have the same sign).
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

Draw: TypeAlias = Callable[[int, int, int, torch.Generator], Tensor]
"""(H, R, K, generator) → H matrices of R directions of width K"""


def draw_independent(heads: int, rows: int, width: int, generator: torch.Generator) -> Float[Tensor, "H R K"]:
    """Independent directions (H, R, K), in float64 on the CPU."""
    return torch.randn(heads, rows, width, generator=generator, dtype=torch.float64, device="cpu")


def orthogonal(heads: int, rows: int, width: int, generator: torch.Generator) -> Float[Tensor, "H R K"]:
    """Directions (H, R, K) that are orthogonal in each block of K, independent for each head, in float64 on the CPU."""
    blocks = -(-rows // width)
    q, r = torch.linalg.qr(draw_independent(heads * blocks, width, width, generator))
    q = q * r.diagonal(dim1=1, dim2=2).sign()[:, None]
    lengths = draw_independent(heads, rows, width, generator).norm(dim=2, keepdim=True)
    return q.mT.reshape(heads, blocks * width, width)[:, :rows] * lengths


def redraw(directions: Float[Tensor, "H R K"], seed: Tensor, draw: Draw) -> None:
    """Writes new directions, drawn from `seed` (), into `directions`, and the seed of the next draw into `seed`.

    Numbers are rounded to bfloat16, so that modules of all dtypes have the same directions. On the meta device nothing
    is written.
    """
    if directions.is_meta:
        return
    generator = torch.Generator("cpu").manual_seed(int(seed))
    heads, rows, width = directions.shape
    directions.copy_(draw(heads, rows, width, generator).bfloat16())
    seed.copy_(fresh(generator))


def fresh(generator: torch.Generator | None = None) -> Tensor:
    """A seed () from the generator, or from torch's global one."""
    return torch.randint(2**31, (), generator=generator, device="cpu")

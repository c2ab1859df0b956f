"""The sum without decay and without order: every query reads all keys of its row.

S = Σ_j k_jᵀ v_j,     y_t = q_t S
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths
from seqloom.ops.pack import within


def total(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T V"], lengths: Lengths | None
) -> Float[Tensor, "B H T V"]:
    """What each query reads. With `lengths` (B,) a row holds so many tokens, and the keys after them are left out."""
    if lengths is not None:
        k = torch.where(within(lengths, k.shape[2])[:, None, :, None], k, 0.0)
    return q @ (k.mT @ v)


def price(rows: int, H: int, K: int, V: int) -> Cost:
    """`rows` tokens in H heads, keys of width K and values of width V: kᵀ v and its sum, and q S."""
    numbers = H * K * V
    return Cost(
        mul=2 * rows * numbers,
        add=max(rows - 1, 0) * numbers + rows * H * (K - 1) * V,
        path=("multiplication", "cumulation", "multiplication", "cumulation"),
    )

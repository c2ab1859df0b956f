"""The bidirectional sum, without decay: every query reads all keys of its row.

S = Σ_j k_jᵀ v_j,     y_t = q_t S
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths
from seqloom.ops.past.pack import within


def total(
    q: Float[Tensor, "B H T K"], k: Float[Tensor, "B H T K"], v: Float[Tensor, "B H T V"], lengths: Lengths | None
) -> Float[Tensor, "B H T V"]:
    """The outputs y. With `lengths` (B,) a row has that many tokens, and keys after them are left out."""
    if lengths is not None:
        k = torch.where(within(lengths, k.shape[2])[:, None, :, None], k, 0.0)
    return q @ (k.mT @ v)


def price(rows: int, H: int, K: int, V: int) -> Cost:
    """The price of `rows` tokens in H heads with keys of width K and values of width V: Σ kᵀ v, and q S."""
    state = H * K * V
    return Cost(
        mul=2 * rows * state,
        add=max(rows - 1, 0) * state + rows * H * (K - 1) * V,
        path=("multiplication", "cumulation", "multiplication", "cumulation"),
    )

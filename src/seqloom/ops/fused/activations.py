"""The elementwise activations that a feed-forward network can have.

    relu        max(x, 0)
    gelu        x Φ(x) = x/2 (1 + erf(x/√2))
    gelu_tanh   x/2 (1 + tanh(√(2/π) (x + 0.044715 x³)))
    silu        x σ(x)
    relu2       max(x, 0)²

Source: Hendrycks and Gimpel, arXiv:1606.08415 (both forms of gelu, and silu); So et al., Primer, arXiv:2109.08668
(relu2). Nothing differs.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.core.cost import Cost, gelu, gelu_tanh, sigmoid


def relu2(x: Tensor) -> Tensor:
    """max(x, 0)²."""
    positive = torch.relu(x)
    return positive * positive


def gelu_by_tanh(x: Tensor) -> Tensor:
    """GELU, approximated by tanh."""
    return F.gelu(x, approximate="tanh")


def _relu(numbers: int) -> Cost:
    return Cost(other=numbers)


def _relu2(numbers: int) -> Cost:
    return Cost(mul=numbers, other=numbers, path=("multiplication",))


FUNCTIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "relu": torch.relu,
    "gelu": F.gelu,
    "gelu_tanh": gelu_by_tanh,
    "silu": F.silu,
    "relu2": relu2,
}
PRICES: Final[dict[str, Callable[[int], Cost]]] = {
    "relu": _relu,
    "gelu": gelu,
    "gelu_tanh": gelu_tanh,
    "silu": sigmoid,
    "relu2": _relu2,
}
"""functions from a number of elements to the price of an activation"""

"""The gate y = h ∘ GELU(z) as it is written, and its price, counted from it."""

from torch import Tensor
from torch.nn.functional import gelu

from seqloom.core.cost import Cost, gelu_tanh


def gated(h: Tensor, z: Tensor) -> Tensor:
    """h ∘ GELU(z)."""
    return h * gelu(z, approximate="tanh")


def price(numbers: int) -> Cost:
    """The price for `numbers` scalars of y."""
    return gelu_tanh(numbers) + Cost(mul=numbers, path=("multiplication",))

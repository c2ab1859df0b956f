"""The price of the gate y = h ∘ GELU(z)."""

from seqloom.core.cost import Cost, gelu_tanh


def price(numbers: int) -> Cost:
    """The price for `numbers` scalars of y."""
    return gelu_tanh(numbers) + Cost(mul=numbers, path=("multiplication",))

"""What a gate of GELU costs."""

from seqloom.core.cost import Cost, gelu_tanh


def price(numbers: int) -> Cost:
    """Of so many numbers."""
    return gelu_tanh(numbers) + Cost(mul=numbers, path=("multiplication",))

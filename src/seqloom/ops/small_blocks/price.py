"""What products with small blocks cost."""

from seqloom.core.cost import Cost


def price(rows: int, channels: int, block: int) -> Cost:
    """Of so many rows."""
    n = rows * channels
    return Cost(mul=n * block, add=n * (block - 1), path=("multiplication", "cumulation"))

"""What a scan costs: a product and a sum for each number."""

from seqloom.core.cost import Cost


def price(numbers: int, is_complex: bool) -> Cost:
    """Of so many numbers; a complex product is four products and two sums, a complex sum two."""
    each = 4 if is_complex else 1
    return Cost(mul=each * numbers, add=each * numbers, path=("multiplication", "addition"))

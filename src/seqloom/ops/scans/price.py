"""What a scan costs: a product and a sum for each number."""

from seqloom.core.cost import Cost


def price(numbers: int, is_complex: bool) -> Cost:
    """Of so many numbers; a complex product is four products and two sums, a complex sum two."""
    product = 4 if is_complex else 1
    return Cost(mul=product * numbers, add=product * numbers, path=("multiplication", "addition"))

"""The price of a scan: a product and a sum for each number."""

from seqloom.core.cost import Cost


def price(numbers: int, is_complex: bool) -> Cost:
    """The price for `numbers` numbers; a complex product is four products and two sums, a complex sum two sums."""
    product = 4 if is_complex else 1
    return Cost(mul=product * numbers, add=product * numbers, path=("multiplication", "addition"))

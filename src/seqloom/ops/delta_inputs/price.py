"""The price of the inputs of the delta rule."""

from seqloom.core.cost import Cost
from seqloom.ops.delta_rule.keys import unit_price


def price(rows: int, heads: int, value_heads: int, K: int, decays: int) -> Cost:
    """The price for `rows` tokens, with the exponentials of the decays, of which a head of values has 0, 1 or K."""
    n = rows * value_heads * K
    lengths = unit_price(2 * rows * heads, K) + Cost(div=rows * heads * K, path=("division",))
    fading = Cost(mul=n, exp=rows * value_heads * decays) if decays else Cost()
    return lengths + Cost(mul=n, path=("multiplication",)) + fading.parallel()

"""The equations as they are written, and their price, counted from them."""

from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.delta_rule.keys import unit, unit_price

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


def inputs(x: Tensor, left: Tensor | None, beta: Tensor, heads: int, K: int) -> Inputs:
    """q, write, v and erase, see `inputs` of the package; tokens before heads."""
    G, keys = beta.shape[2], heads * K
    q, k, v = x.split((keys, keys, x.shape[2] - 2 * keys), -1)
    q, k = (unit(tensor.unflatten(-1, (heads, K))) for tensor in (q, k))
    q = q / K**0.5
    if heads < G:
        q, k = (tensor.repeat_interleave(G // heads, 2) for tensor in (q, k))
    return q, beta[..., None] * k, v.unflatten(-1, (G, -1)), k if left is None else left * k


def price(rows: int, heads: int, value_heads: int, K: int, decays: int) -> Cost:
    """The price for `rows` tokens, with the exponentials of the decays, of which a head of values has 0, 1 or K."""
    n = rows * value_heads * K
    queries_and_keys = unit_price(2 * rows * heads, K) + Cost(div=rows * heads * K, path=("division",))
    write = Cost(mul=n, path=("multiplication",))
    erase = Cost(mul=n, exp=rows * value_heads * decays) if decays else Cost()
    return queries_and_keys + write + erase.parallel()

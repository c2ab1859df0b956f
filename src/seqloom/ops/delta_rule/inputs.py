"""The inputs of a gated mixer's delta rule, from the output of its convolution, with keys and queries of length 1.

    (q, k, v) = x                               H heads of q and k of width K, G of v; a head of q, k serves G/H of v
    q ← q / √(Σ q² + 1e-6) / √K,   k ← k / √(Σ k² + 1e-6)         per head
    beta_k = β k,   erase = left ∘ k            left = e^g, one per head of values, or one per channel; None for 1

Source: Yang et al., arXiv:2412.06464, and the authors' flash-linear-attention. Nothing differs.
"""

from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Stream
from seqloom.ops.checked import check_shapes
from seqloom.ops.delta_rule.keys import unit, unit_price

Inputs: TypeAlias = tuple[
    Float[Tensor, "B T G K"], Float[Tensor, "B T G K"], Float[Tensor, "B T G V"], Float[Tensor, "B T G K"]
]


def delta_inputs(
    x: Stream, left: Float[Tensor, "B T G E"] | None, beta: Float[Tensor, "B T G"], heads: int, K: int
) -> Inputs:
    """q, beta_k, v and erase (B, T, G, K or V) from x (B, T, 2 H K + G V), for H = `heads`.

    Raises ValueError where sizes do not agree.
    """
    require_sizes(x, left, beta, heads, K)
    G, keys = beta.shape[2], heads * K
    qk, v = x.split((2 * keys, x.shape[2] - 2 * keys), -1)
    q, k = unit(qk.unflatten(-1, (2 * heads, K))).split(heads, 2)
    q = q / K**0.5
    if heads < G:
        q, k = (tensor.repeat_interleave(G // heads, 2) for tensor in (q, k))
    v = v.unflatten(-1, (G, v.shape[2] // G))
    return q, beta[..., None] * k, v, k if left is None else left * k


@check_shapes("delta_inputs")
def require_sizes(
    x: Float[Tensor, "B T C"], left: Float[Tensor, "B T G E"] | None, beta: Float[Tensor, "B T G"], heads: int, K: int
) -> None:
    """Raises ValueError where sizes do not agree; g has the sizes of `left`."""
    C, G = x.shape[2], beta.shape[2]
    heads_misfit = heads < 1 or G < 1 or G % heads or K < 1
    if (
        heads_misfit
        or 2 * heads * K >= C
        or (C - 2 * heads * K) % G
        or (left is not None and left.shape[3] not in (1, K))
    ):
        raise ValueError(f"delta_inputs: {C} channels are not {heads} heads of keys {K} wide and {G} heads of values")


def price(rows: int, heads: int, value_heads: int, K: int, decays: int) -> Cost:
    """The price for `rows` tokens, with the exponentials of the decays, of which a head of values has 0, 1 or K."""
    n = rows * value_heads * K
    queries_and_keys = unit_price(2 * rows * heads, K) + Cost(div=rows * heads * K, path=("division",))
    beta_k = Cost(mul=n, path=("multiplication",))
    erase = Cost(mul=n, exp=rows * value_heads * decays) if decays else Cost()
    return queries_and_keys + beta_k + erase.parallel()

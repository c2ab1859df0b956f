"""The reference: the equations as they are written."""

from torch import Tensor

from seqloom.ops.delta_rule.keys import unit

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

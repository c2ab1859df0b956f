"""The delta rule from the output of a mixer's convolution: a token's value replaces the one that its key reads.

    (q, k, v) = x                               H heads of q and k of width K, G of v; a head of q, k serves G/H of v
    q ← q / (|q| √K),   k ← k / |k|             per head; |x| = √(Σ x² + 1e-6)
    S' = diag(e^{g_t}) S_{t-1},   S_t = S' + β_t k_tᵀ (v_t - k_t S'),   y_t = q_t S_t

On a GPU flash-linear-attention's kernels take k, β and g; every other backend takes `delta_inputs`:

    beta_k = β k,   erase = left ∘ k            left = e^g, one per head of values, or one per channel; None for 1

Source: Yang et al., arXiv:2406.06484, arXiv:2412.06464, and the authors' flash-linear-attention; Kimi Team,
arXiv:2510.26692. Nothing differs.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops import gpu
from seqloom.ops.checked import check_shapes
from seqloom.ops.delta_rule import OP, delta, fla
from seqloom.ops.delta_rule.keys import unit, unit_price
from seqloom.ops.past.pack import within

Inputs: TypeAlias = tuple[
    Float[Tensor, "B T G K"], Float[Tensor, "B T G K"], Float[Tensor, "B T G V"], Float[Tensor, "B T G K"]
]


def gated_delta(
    x: Stream,
    g: Tensor | None,
    beta: Float[Tensor, "B T G"],
    state: Float[Tensor, "B G K V"] | None,
    *,
    heads: int,
    K: int,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B G T V"], Float[Tensor, "B G K V"]]:
    """The outputs y and the state S after the last token of x (B, T, 2 H K + G V), for H = `heads`.

    g is None, (B, T, G) or (B, T, G, K). With `lengths` (B,) a row holds so many tokens, then padding. ValueError where
    sizes do not agree.
    """
    decays = g[..., None] if g is not None and g.ndim == 3 else g  # (B, T, G, 1 or K)
    if gpu.supports(x.device) and x.numel() > 0 and OP.choose(x.detach()[:, None, :, :K]) == "fla":
        require_sizes(x, decays, beta, heads, K)
        if lengths is not None:  # in padding nothing is written or erased, and nothing decays
            real = within(lengths, x.shape[1])[..., None]
            x = torch.where(real, x, 0.0)
            g = None if g is None else torch.where(real if g.ndim == 3 else real[..., None], g, 0.0)
        with torch.autocast(x.device.type, enabled=False):
            return fla.gated_delta(x, g, beta, state, heads, K)
    left = None if decays is None else decays.exp()
    q, beta_k, v, erase = (tensor.transpose(1, 2) for tensor in delta_inputs(x, left, beta, heads, K))
    log_decay = None if g is None else g.transpose(1, 2)
    return delta(q, k=beta_k, v=v, erase=erase, log_decay=log_decay, state=state, lengths=lengths)


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


def input_price(rows: int, heads: int, value_heads: int, K: int, decays: int) -> Cost:
    """The price for `rows` tokens, with the exponentials of the decays, of which a head of values has 0, 1 or K."""
    n = rows * value_heads * K
    queries_and_keys = unit_price(2 * rows * heads, K) + Cost(div=rows * heads * K, path=("division",))
    beta_k = Cost(mul=n, path=("multiplication",))
    erase = Cost(mul=n, exp=rows * value_heads * decays) if decays else Cost()
    return queries_and_keys + beta_k + erase.parallel()

"""The delta rule on a GPU by the kernels of flash-linear-attention, in the dtype of q."""

import torch
from torch import Tensor

from seqloom.ops.fla import heads_last, once


def delta(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule`; shapes as in `delta` there, T at least 1. g and state are float32."""
    from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule

    removed = -(k if write is None else write)
    narrow = (heads_last(x).to(q.dtype).contiguous() for x in (q, k, v, erase, removed))
    decay = heads_last(_by_channel(g, q)).contiguous()
    y, new_state = chunk_dplr_delta_rule(*narrow, decay, scale=1.0, initial_state=state, output_final_state=True)
    return once(heads_last(y)), once(new_state)


def gated(x: Tensor, g: Tensor | None, beta: Tensor, state: Tensor | None, heads: int, K: int) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule.gated`; shapes as there, T at least 1. The state is float32."""
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    G, keys = beta.shape[2], heads * K
    q, k, v = x.split((keys, keys, x.shape[2] - 2 * keys), -1)
    q, k = (tensor.unflatten(-1, (heads, K)).contiguous() for tensor in (q, k))
    v, beta = v.unflatten(-1, (G, -1)).contiguous(), beta.contiguous()
    options = {"initial_state": state, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    if g is None:
        if heads < G:
            q, k = (tensor.repeat_interleave(G // heads, 2) for tensor in (q, k))
        y, new_state = chunk_delta_rule(q, k, v, beta, **options)
    else:
        rule = chunk_gated_delta_rule if g.ndim == 3 else chunk_kda
        y, new_state = rule(q, k, v, g.contiguous(), beta, **options)
    return once(heads_last(y)), once(new_state)


def _by_channel(g: Tensor | None, q: Tensor) -> Tensor:
    """g as one decay per channel of the keys (B, H, T, K), in float32."""
    if g is None:
        return torch.zeros_like(q, dtype=torch.float32)
    return (g if g.ndim == 4 else g[..., None]).expand(q.shape)

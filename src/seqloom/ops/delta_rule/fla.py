"""The delta rule on a GPU by the kernels of flash-linear-attention, in the dtype of q."""

import torch
from torch import Tensor

from seqloom.ops.fla import Kernel, heads_last


def delta(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, write: Tensor | None, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule`; shapes as in `delta` there, T at least 1. g and state are float32."""
    removed = -(k if write is None else write)
    narrow = (heads_last(x).to(q.dtype).contiguous() for x in (q, k, v, erase, removed))
    y, new_state = RULE(*narrow, heads_last(_by_channel(g, q)).contiguous(), state)
    return heads_last(y), new_state


def gated_delta(
    x: Tensor, g: Tensor | None, beta: Tensor, state: Tensor | None, heads: int, K: int
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.delta_rule.gated`; shapes as there, T at least 1. The state is float32."""
    G, keys = beta.shape[2], heads * K
    q, k, v = x.split((keys, keys, x.shape[2] - 2 * keys), -1)
    q, k = (tensor.unflatten(-1, (heads, K)).contiguous() for tensor in (q, k))
    v, beta = v.unflatten(-1, (G, -1)).contiguous(), beta.contiguous()
    if g is None and heads < G:  # only its kernels with a decay read keys that several heads of values share
        q, k = (tensor.repeat_interleave(G // heads, 2) for tensor in (q, k))
    y, new_state = GATED(q, k, v, None if g is None else g.contiguous(), beta, state)
    return heads_last(y), new_state


def _rule(
    q: Tensor, k: Tensor, v: Tensor, erase: Tensor, removed: Tensor, decay: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    from fla.ops.generalized_delta_rule import chunk_dplr_delta_rule

    outputs: tuple[Tensor, Tensor] = chunk_dplr_delta_rule(
        q, k, v, erase, removed, decay, scale=1.0, initial_state=state, output_final_state=True
    )
    return outputs


def _gated_delta(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, beta: Tensor, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    from fla.ops.delta_rule import chunk_delta_rule
    from fla.ops.gated_delta_rule import chunk_gated_delta_rule
    from fla.ops.kda import chunk_kda

    options = {"initial_state": state, "output_final_state": True, "use_qk_l2norm_in_kernel": True}
    outputs: tuple[Tensor, Tensor]
    if g is None:
        outputs = chunk_delta_rule(q, k, v, beta, **options)
    else:
        rule = chunk_gated_delta_rule if g.ndim == 3 else chunk_kda
        outputs = rule(q, k, v, g, beta, **options)
    return outputs


def _by_channel(g: Tensor | None, q: Tensor) -> Tensor:
    """g as one decay per channel of the keys (B, H, T, K), in float32."""
    if g is None:
        return torch.zeros_like(q, dtype=torch.float32)
    return (g if g.ndim == 4 else g[..., None]).expand(q.shape)


RULE, GATED = Kernel("fla_rule", _rule), Kernel("fla_gated_rule", _gated_delta)

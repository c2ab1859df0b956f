"""The decaying sum on a GPU by the kernels of flash-linear-attention, in the dtype of q."""

from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.fla import heads_last, once


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1. g and state are float32."""
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    V = v.shape[3]
    if V % 2:  # the kernels of the gradients need an even number of channels
        v, state = pad(v, (0, 1)), None if state is None else pad(state, (0, 1))
    k, v = k.to(q.dtype), v.to(q.dtype)
    q, k, v = (heads_last(x).contiguous() for x in (q, k, v))
    carried = {"scale": 1.0, "initial_state": state, "output_final_state": True}
    if g is not None and g.ndim == 4:
        y, new_state = chunk_gla(q, k, v, heads_last(g).contiguous(), **carried)
    else:
        by_token = None if g is None else _by_token(g, q)
        y, new_state = chunk_simple_gla(q, k, v, by_token, **carried)
    if V % 2:
        y, new_state = y[..., :V], new_state[..., :V].contiguous()
    return once(heads_last(y)), once(new_state)


def _by_token(g: Tensor, q: Tensor) -> Tensor:
    """g (H,) or (B, H, T) as (B, T, H). A decay that is given per head has no gradient in fla."""
    B, T, H, _ = q.shape
    return g.expand(B, T, H).contiguous() if g.ndim == 1 else heads_last(g).contiguous()

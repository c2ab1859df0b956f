"""The decaying sum on a GPU by the kernels of flash-linear-attention, in the dtype of q."""

from torch import Tensor
from torch.nn.functional import pad

from seqloom.ops.fla import Kernel, heads_last


def decay(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1. g and state are float32."""
    V = v.shape[3]
    if V % 2:  # the kernels of the gradients need an even number of channels
        v, state = pad(v, (0, 1)), None if state is None else pad(state, (0, 1))
    k, v = k.to(q.dtype), v.to(q.dtype)
    q, k, v = (heads_last(x).contiguous() for x in (q, k, v))
    y, new_state = SUM(q, k, v, None if g is None else _tokens_first(g, q), state)
    if V % 2:
        y, new_state = y[..., :V], new_state[..., :V].contiguous()
    return heads_last(y), new_state


def _tokens_first(g: Tensor, q: Tensor) -> Tensor:
    """g (H,), (B, H, T) or (B, H, T, K), the first as (B, T, H): fla has no gradient for it."""
    return g.expand(q.shape[:3]).contiguous() if g.ndim == 1 else heads_last(g).contiguous()


def _sum(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> tuple[Tensor, Tensor]:
    from fla.ops.gla import chunk_gla
    from fla.ops.simple_gla import chunk_simple_gla

    kernel = chunk_gla if g is not None and g.ndim == 4 else chunk_simple_gla
    outputs: tuple[Tensor, Tensor] = kernel(q, k, v, g, scale=1.0, initial_state=state, output_final_state=True)
    return outputs


SUM = Kernel("fla_sum", _sum)

"""One token of the decaying sum in one call of C (token.c), around torch's operators, which cost more than it does."""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("token.c")
ENTRY = Entry(
    "linear_decay",
    SOURCE,
    "token",
    "threads B G H K V",
    Argument("q", "B G 1 K"),
    Argument("k", "B G 1 K"),
    Argument("v", "B H 1 V"),
    Argument("log_decay", "B H 1", optional=True),
    Argument("log_decays", "B H 1 K", optional=True),
    Argument("state", "B H K V", written=True),
    Argument("y", "B H 1 V", written=True),
    Argument("after", "B H K V", optional=True, written=True),
    least="G",
)


def able(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> bool:
    """Whether C can do a token of these tensors (B, heads, 1, ·), decays and state: on a CPU, without gradients."""
    if not native.callable_directly(q, k, v, *[tensor for tensor in (g, state) if tensor is not None]):
        return False
    if g is not None and g.layout != torch.strided:  # which cannot be expanded
        return False
    one = q.ndim == v.ndim == 4 and q.shape[2] == 1 and v.numel() > 0
    return one and q.is_cpu and q.dtype in native.WORD and native.library(SOURCE) is not None


def token(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, reuse: bool = False
) -> tuple[Tensor, Tensor]:
    """`decay` of `seqloom.ops.linear_decay` for T = 1: y (B, H, 1, V), and the state after it.

    With `reuse` the state is written over. ValueError where sizes do not agree or there is no native code.
    """
    (B, H, _, V), K = v.shape, q.shape[3]
    if g is not None and g.ndim == 1:
        g = g[None, :, None].expand(B, -1, 1)
    of_heads, of_channels = (None, g) if g is not None and g.ndim == 4 else (g, None)
    before = v.new_zeros(B, H, K, V) if state is None else state if reuse else state.contiguous()
    y, new_state = v.new_empty(v.shape), None if reuse or state is None else v.new_empty(state.shape)
    if ENTRY(q, k, v, of_heads, of_channels, before, y, new_state, threads=native.threads(before.numel())):
        raise ValueError(f"linear_decay: {H} heads of v are no multiple of {q.shape[1]} heads of q and k")
    return y, before if new_state is None else new_state

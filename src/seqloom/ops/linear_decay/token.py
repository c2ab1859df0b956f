"""One token of the decaying sum in one call of C (token.c): calls of torch's operators take longer than the sum."""

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
    Argument("new_state", "B H K V", optional=True, written=True),
    least="G",
)


def able(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None) -> bool:
    """Whether the C code supports a token of these tensors (B, heads, 1, ·): on a CPU, without gradients."""
    if not native.callable_directly(q, k, v, *[tensor for tensor in (g, state) if tensor is not None]):
        return False
    if g is not None and g.layout != torch.strided:  # other layouts cannot be expanded
        return False
    single_token = q.ndim == v.ndim == 4 and q.shape[2] == 1 and v.numel() > 0
    return single_token and q.is_cpu and q.dtype in native.WORD and native.library(SOURCE) is not None


def token(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, reuse: bool = False
) -> tuple[Tensor, Tensor]:
    """`decay` of `seqloom.ops.linear_decay` for T = 1: y (B, H, 1, V), and the state after it.

    With `reuse` the state is overwritten. ValueError where sizes do not agree or there is no native code.
    """
    (B, H, _, V), K = v.shape, q.shape[3]
    if g is not None and g.ndim == 1:
        g = g[None, :, None].expand(B, -1, 1)
    log_decay, log_decays = (None, g) if g is not None and g.ndim == 4 else (g, None)
    if state is None:
        S, new_state = v.new_zeros(B, H, K, V), None
    elif reuse:
        S, new_state = state, None
    else:
        S, new_state = state.contiguous(), v.new_empty(state.shape)
    y = v.new_empty(v.shape)
    if ENTRY(q, k, v, log_decay, log_decays, S, y, new_state, threads=native.threads(S.numel())):
        raise ValueError(f"linear_decay: {H} heads of v are no multiple of {q.shape[1]} heads of q and k")
    return y, S if new_state is None else new_state

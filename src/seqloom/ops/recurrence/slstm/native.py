"""The sLSTM in C (cell.c): token by token, a head's matrix in the cache, threads over heads and rows.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
The gradient of the matrix is one product over all tokens, outside of C. Second derivatives are taken through the
reference.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import Kernel
from seqloom.ops.recurrence.reference import state_after
from seqloom.ops.recurrence.slstm import reference

KERNEL = Kernel("slstm", Path(__file__).with_name("cell.c"))
STATES = " ".join(f"{name}(B T+1 H*K, written)" for name in "hcnm")
FORWARD = KERNEL.function(
    "forward",
    "threads B T H K",
    f"a(B T H 4*K) w(H K 4*K) bias(H 4*K) {STATES}",
    makes="saved(B T H 5*K)",
    room="scratch(threads room)",
)
"""`saved` are numbers of each unit and token that backward reads"""
BACKWARD = KERNEL.function(
    "backward",
    "threads B T H K",
    "w(H K 4*K) c(B T+1 H*K) n(B T+1 H*K) saved(B T H 5*K)"
    " dh(B T+1 H*K, written) dc(B T+1 H*K, written) dn(B T+1 H*K, written)",
    makes="da(B T H 4*K)",
    room="scratch(threads room)",
)


def read(
    a: Tensor, w: Tensor, bias: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """See `reference.read`; float32 or float64. ValueError where there is no native code."""
    *states, _ = forward(a, w, bias, *state)
    h = states[0]
    return h[:, 1:], tuple(state_after(tensor, lengths) for tensor in states)


def _forward(
    a: Tensor, w: Tensor, bias: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """All h, c, n and m (B, T+1, N), with those before the first token, and the numbers for `_backward`."""
    (B, T, H, _), K = a.shape, w.shape[1]
    all_h, all_c, all_n, all_m = (a.new_empty(B, T + 1, H * K) for _ in range(4))
    for states, initial in ((all_h, h), (all_c, c), (all_n, n), (all_m, m)):
        states[:, 0] = initial
    saved = FORWARD(a, w, bias, all_h, all_c, all_n, all_m, **_sizes(a, K))
    return all_h, all_c, all_n, all_m, saved


def _backward(
    a: Tensor,
    w: Tensor,
    bias: Tensor,
    h0: Tensor,
    c0: Tensor,
    n0: Tensor,
    m0: Tensor,
    h: Tensor,
    c: Tensor,
    n: Tensor,
    saved: Tensor,
    h_grads: Tensor,
    c_grads: Tensor | None,
    n_grads: Tensor | None,
    m_grads: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """The gradients of a, w, bias and the first state, from those of all h, c, n and m (B, T+1, N)."""
    H, K, _ = w.shape
    dh, dc, dn = (
        torch.zeros_like(h) if grads is None else _copy_contiguous(grads) for grads in (h_grads, c_grads, n_grads)
    )
    da = BACKWARD(w, c, n, saved, dh, dc, dn, **_sizes(a, K))
    h_before = h[:, :-1].unflatten(2, (H, K)).permute(2, 3, 0, 1).flatten(2)  # (H, K, B T)
    dw = torch.bmm(h_before, da.permute(2, 0, 1, 3).flatten(1, 2))
    dm = torch.zeros_like(m0) if m_grads is None else m_grads[:, 0].clone()  # a row without tokens returns m unchanged
    return da, dw, da.sum((0, 1)), dh[:, 0].clone(), dc[:, 0].clone(), dn[:, 0].clone(), dm


def _copy_contiguous(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _sizes(a: Tensor, K: int) -> dict[str, int]:
    """The sizes that do not follow from the tensors."""
    return {"threads": native.threads(a.numel() * K), "K": K, "room": KERNEL.size("scratch", a.dtype, K)}


def _compute(a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
    return reference.states(a, w, bias, state)


forward = KERNEL.operator("slstm", _forward, _backward, _compute, keep=(0, 1, 2, 4), results=4)

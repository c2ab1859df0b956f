"""The sLSTM in C (cell.c): token by token, a head's matrix in the cache, threads over heads and rows.

They are two operators of torch, which a compiled model calls unchanged. Results do not depend on the number of threads.
The gradient of the matrix is one product over all tokens, outside of C. Second derivatives are taken through the
reference.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, differentiate, paired
from seqloom.ops.native import Argument, Entry
from seqloom.ops.recurrence.reference import state_after
from seqloom.ops.slstm import reference

SOURCE = Path(__file__).with_name("cell.c")
SAVED = 5
"""numbers of a unit and token that forward saves for backward, the same number as in the C code"""
FORWARD = Entry(
    "slstm",
    SOURCE,
    "forward",
    "threads B T H K",
    Argument("a", "B T H 4*K"),
    Argument("w", "H K 4*K"),
    Argument("bias", "H 4*K"),
    *(Argument(name, "B T+1 H*K", written=True) for name in "hcnm"),
    Argument("saved", "B T H 5*K", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads",
)
BACKWARD = Entry(
    "slstm",
    SOURCE,
    "backward",
    "threads B T H K",
    Argument("w", "H K 4*K"),
    Argument("c", "B T+1 H*K"),
    Argument("n", "B T+1 H*K"),
    Argument("saved", "B T H 5*K"),
    *(Argument(name, "B T+1 H*K", written=True) for name in ("dh", "dc", "dn")),
    Argument("da", "B T H 4*K", written=True),
    Argument("scratch", "threads room", written=True),
    least="threads",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


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
    saved, scratch = a.new_empty(B, T, H, SAVED * K), _scratch(a, K)
    FORWARD(a, w, bias, all_h, all_c, all_n, all_m, saved, scratch, threads=len(scratch), K=K)
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
    dh, dc, dn = (torch.zeros_like(h) if grads is None else _copied(grads) for grads in (h_grads, c_grads, n_grads))
    da, scratch = a.new_empty(a.shape), _scratch(a, K)
    BACKWARD(w, c, n, saved, dh, dc, dn, da, scratch, threads=len(scratch), K=K)
    h_before = h[:, :-1].unflatten(2, (H, K)).permute(2, 3, 0, 1).flatten(2)  # (H, K, B T)
    dw = torch.bmm(h_before, da.permute(2, 0, 1, 3).flatten(1, 2))
    dm = torch.zeros_like(m0) if m_grads is None else m_grads[:, 0].clone()  # a row without tokens returns m unchanged
    return da, dw, da.sum((0, 1)), dh[:, 0].clone(), dc[:, 0].clone(), dn[:, 0].clone(), dm


def _copied(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _scratch(a: Tensor, K: int) -> Tensor:
    """Scratch memory for every thread."""
    room = native.size("slstm", SOURCE, f"scratch_{native.WORD[a.dtype]}", K)
    return a.new_empty(native.threads(a.numel() * K), room)


def _differentiable(*arguments: Tensor | None) -> list[Tensor | None]:
    """The gradients computed by torch's operations, so that they can be differentiated again.

    `arguments` are those of `_backward`.
    """
    inputs, (h_grads, c_grads, n_grads, m_grads) = arguments[:7], arguments[11:]
    m0 = inputs[6]
    assert m0 is not None

    def compute(a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> tuple[Tensor, ...]:
        return reference.states(a, w, bias, state)

    output_grads = (h_grads, c_grads, n_grads, m_grads if m0.requires_grad else None)
    return differentiate(compute, inputs, output_grads)


def _shapes(a: Tensor, w: Tensor, *rest: Tensor) -> list[tuple[int, ...]]:
    (B, T, H, _), K = a.shape, w.shape[1]
    return [*[(B, T + 1, H * K)] * 4, (B, T, H, SAVED * K)]


def _gradient_shapes(*arguments: Tensor) -> list[tuple[int, ...]]:
    return [tuple(tensor.shape) for tensor in arguments[:7]]


forward: Operator = paired(
    "slstm",
    _forward,
    _backward,
    shapes=_shapes,
    gradient_shapes=_gradient_shapes,
    save=lambda inputs, outputs: (*inputs, *outputs[:3], outputs[4]),
    differentiable=_differentiable,
    results=4,
)

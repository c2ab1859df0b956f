"""The cell of the GRU that resets before its matrix, for `looped`, and its derivative.

    dn = dh_t ∘ (1 - z)(1 - n²),   dz = dh_t ∘ (h_{t-1} - n) z (1 - z),   q = r ∘ h_{t-1},   dq = dn W_nᵀ
    dr = dq ∘ h_{t-1} r (1 - r),   dh_{t-1} += dh_t ∘ z + dq ∘ r + [dr, dz] W_rzᵀ

Source: the chain rule, on the equations of `recurrence`.
"""

import torch
from torch import Tensor

from seqloom.ops.projection import outer

tanh_backward, sigmoid_backward = (
    operator.grad_input for operator in (torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward)
)
Tensors = tuple[Tensor, ...]


def forward(a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """See `looped.Loop`; the gates and r ∘ h are saved."""
    (w,), (first,) = weights, state
    N = w.shape[1]
    of_gates, of_new = w[: 2 * N].t(), w[2 * N :].t()
    h = torch.cat([first[None], first.new_empty(len(a), *first.shape)])
    left, steps = torch.empty_like(h[1:]), h.unbind(0)
    for t, (gates, q) in enumerate(zip(a.unbind(0), left.unbind(0), strict=True)):
        r, z, n = gates.split(N, 1)
        gates[:, : 2 * N].addmm_(steps[t], of_gates).sigmoid_()
        n.addmm_(torch.mul(r, steps[t], out=q), of_new).tanh_()
        torch.lerp(n, steps[t], z, out=steps[t + 1])
    return (h,), (a, left)


def backward(weights: Tensors, states: Tensors, saved: Tensors, given: Tensors) -> tuple[Tensor, Tensors, Tensors]:
    """See `looped.Loop`."""
    (w,), (h,), (gates, left), (dh,) = weights, states, saved, given
    N, before = w.shape[1], h[:-1]
    of_gates, of_new = w[: 2 * N], w[2 * N :]
    da, reaches = torch.empty_like(gates), dh[-1]
    for t in reversed(range(len(gates))):
        (r, z, n), (dr, dz, dn) = gates[t].split(N, 1), da[t].split(N, 1)
        held = reaches * z
        tanh_backward(reaches - held, n, grad_input=dn)
        dq = dn @ of_new
        sigmoid_backward(dq * before[t], r, grad_input=dr)
        sigmoid_backward((before[t] - n).mul_(reaches), z, grad_input=dz)
        reaches = held.add_(dh[t]).addcmul_(dq, r).addmm_(da[t, :, : 2 * N], of_gates)
    rows = da.flatten(0, 1)
    dw = torch.cat([outer(rows[:, : 2 * N], before.flatten(0, 1)), outer(rows[:, 2 * N :], left.flatten(0, 1))])
    return da, (dw,), (reaches,)

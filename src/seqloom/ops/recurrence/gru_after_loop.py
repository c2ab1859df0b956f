"""The cell of the GRU that resets after its matrix, for `looped`, and its derivative, with m = h_{t-1} W_n + b_n.

    dn = dh_t ∘ (1 - z)(1 - n²),   dz = dh_t ∘ (h_{t-1} - n) z (1 - z),   dm = dn ∘ r,   dr = dn ∘ m r (1 - r)
    dh_{t-1} += dh_t ∘ z + [dr, dz, dm] Wᵀ

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
    """See `looped.Loop`; the gates and m are saved."""
    (w, inner), (first,) = weights, state
    N = w.shape[1]
    of_gates, of_new = w[: 2 * N].t(), w[2 * N :].t()
    h = torch.cat([first[None], first.new_empty(len(a), *first.shape)])
    inside, steps = torch.empty_like(h[1:]), h.unbind(0)
    for t, (gates, m) in enumerate(zip(a.unbind(0), inside.unbind(0), strict=True)):
        r, z, n = gates.split(N, 1)
        gates[:, : 2 * N].addmm_(steps[t], of_gates).sigmoid_()
        n.addcmul_(r, torch.addmm(inner, steps[t], of_new, out=m)).tanh_()
        torch.lerp(n, steps[t], z, out=steps[t + 1])
    return (h,), (a, inside)


def backward(weights: Tensors, states: Tensors, saved: Tensors, given: Tensors) -> tuple[Tensor, Tensors, Tensors]:
    """See `looped.Loop`."""
    (w, _), (h,), (gates, m), (dh,) = weights, states, saved, given
    N, before = w.shape[1], h[:-1]
    slopes, dn = torch.empty_like(gates), torch.empty_like(m)
    reaches = dh[-1]
    for t in reversed(range(len(gates))):
        (r, z, n), (dr, dz, dm) = gates[t].split(N, 1), slopes[t].split(N, 1)
        held = reaches * z
        tanh_backward(reaches - held, n, grad_input=dn[t])
        torch.mul(dn[t], r, out=dm)
        sigmoid_backward(dn[t] * m[t], r, grad_input=dr)
        sigmoid_backward((before[t] - n).mul_(reaches), z, grad_input=dz)
        reaches = held.add_(dh[t]).addmm_(slopes[t], w)
    rows = slopes.flatten(0, 1)
    da = torch.cat([slopes[..., : 2 * N], dn], 2)
    return da, (outer(rows, before.flatten(0, 1)), rows[:, 2 * N :].sum(0)), (reaches,)

"""The LSTM's cell for `looped`, and its derivative.

    dc_t += dh_t ∘ o (1 - tanh²c_t),   do = dh_t ∘ tanh(c_t) o (1 - o)
    di = dc_t ∘ g i (1 - i),   df = dc_t ∘ c_{t-1} f (1 - f),   dg = dc_t ∘ i (1 - g²)
    dc_{t-1} += dc_t ∘ f,   dh_{t-1} += [di, df, dg, do] Wᵀ

Source: the chain rule, on the equations of `recurrence`.
"""

import torch
from torch import Tensor

from seqloom.ops.projection import outer

Tensors = tuple[Tensor, ...]


def forward(a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """See `looped.Loop`; the gates and tanh(c) are saved."""
    (w,), (first, cells) = weights, state
    N, across = w.shape[1], w.t()
    h, c = (torch.cat([tensor[None], tensor.new_empty(len(a), *tensor.shape)]) for tensor in (first, cells))
    squashed = torch.empty_like(h[1:])
    each_h, each_c = h.unbind(0), c.unbind(0)
    for t, (gates, seen) in enumerate(zip(a.unbind(0), squashed.unbind(0), strict=True)):
        gates.addmm_(each_h[t], across)
        gates[:, : 2 * N].sigmoid_()
        gates[:, 2 * N : 3 * N].tanh_()
        gates[:, 3 * N :].sigmoid_()
        i, f, g, o = gates.split(N, 1)
        torch.mul(f, each_c[t], out=each_c[t + 1]).addcmul_(i, g)
        torch.tanh(each_c[t + 1], out=seen)
        torch.mul(o, seen, out=each_h[t + 1])
    return (h, c), (a, squashed)


def backward(weights: Tensors, states: Tensors, saved: Tensors, given: Tensors) -> tuple[Tensor, Tensors, Tensors]:
    """See `looped.Loop`."""
    (w,), (h, c), (gates, squashed), (dh, dc) = weights, states, saved, given
    N = w.shape[1]
    i, f, g, o = gates.split(N, 2)
    each_f, own_h, own_c = f.unbind(0), dh.unbind(0), dc.unbind(0)
    da, through = torch.empty_like(gates), o * (1 - squashed.square())
    slopes = (g * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - g.square()), squashed * o * (1 - o))
    torch.cat(slopes, 2, out=da)
    to_h, to_c = own_h[-1], own_c[-1].clone()
    for t in reversed(range(len(gates))):
        slope = da[t]
        to_c.addcmul_(to_h, through[t])
        slope[:, : 3 * N].unflatten(1, (3, N)).mul_(to_c[:, None])
        slope[:, 3 * N :].mul_(to_h)
        to_h = torch.addmm(own_h[t], slope, w)
        to_c = torch.addcmul(own_c[t], to_c, each_f[t])
    return da, (outer(da.flatten(0, 1), h[:-1].flatten(0, 1)),), (to_h, to_c)

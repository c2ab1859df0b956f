"""Elman's cell for `looped`, and its derivative: dh_{t-1} += (dh_t ∘ (1 - h_t²)) Wᵀ."""

from itertools import pairwise

import torch
from torch import Tensor

from seqloom.ops.projection import outer

tanh_backward = torch.ops.aten.tanh_backward.grad_input
Tensors = tuple[Tensor, ...]


def forward(a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
    """See `looped.Loop`."""
    across = weights[0].t()
    h = torch.cat([state[0][None], a])
    steps = h.unbind(0)
    for before, now in pairwise(steps):
        now.addmm_(before, across).tanh_()
    return (h,), ()


def backward(weights: Tensors, states: Tensors, saved: Tensors, given: Tensors) -> tuple[Tensor, Tensors, Tensors]:
    """See `looped.Loop`."""
    (w,), (h,), (dh,) = weights, states, given
    da, reaches = torch.empty_like(h[1:]), dh[-1]
    steps = zip(da.unbind(0), h[1:].unbind(0), dh[:-1].unbind(0), strict=True)
    for slope, now, own in reversed(list(steps)):
        tanh_backward(reaches, now, grad_input=slope)
        reaches = torch.addmm(own, slope, w)
    return da, (outer(da.flatten(0, 1), h[:-1].flatten(0, 1)),), (reaches,)

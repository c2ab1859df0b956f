"""A span of `walks` token by token, in place: one operation for each token."""

import torch
from torch import Tensor

SPAN = 32
"""tokens of a span: what is computed for it stays in a core's cache"""


def onward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `walks.Walk`."""
    B, S, D, N = a.shape
    h = a.new_empty(B, S + 1, D, N)
    h[:, 0] = state
    states = h.unbind(1)
    for t, (a_t, b_t) in enumerate(zip(a.unbind(1), b.unbind(1), strict=True)):
        torch.addcmul(b_t, a_t, states[t], out=states[t + 1])
    return h


def back(a: Tensor, c: Tensor, last: Tensor) -> Tensor:
    """See `walks.Walk`."""
    G = torch.empty_like(c)
    G[:, -1] = c[:, -1] + last
    each_G, each_a, each_c = G.unbind(1), a.unbind(1), c.unbind(1)
    for t in reversed(range(len(each_G) - 1)):
        torch.addcmul(each_c[t], each_a[t + 1], each_G[t + 1], out=each_G[t])
    return G

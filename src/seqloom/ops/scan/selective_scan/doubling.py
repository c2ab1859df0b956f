"""A span of `walks` in log2 S passes over whole tensors, each of which doubles the tokens that a position has summed.

This is S log2 S work in a few large operations, for devices and graphs where many small ones are slow. Nothing is
written in place, so that the backward pass can be differentiated too.
"""

import torch
from torch import Tensor

SPAN = 256
"""tokens of a span, whose states are all in memory at once"""


def onward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `walks.Walk`."""
    h, decay = torch.cat([state[:, None], b], 1), torch.cat([torch.zeros_like(state[:, None]), a], 1)
    n = 1
    while n < h.shape[1]:
        h = torch.cat([h[:, :n], h[:, n:] + decay[:, n:] * h[:, :-n]], 1)
        decay = torch.cat([decay[:, :n], decay[:, n:] * decay[:, :-n]], 1)
        n *= 2
    return h


def back(a: Tensor, c: Tensor, last: Tensor) -> Tensor:
    """See `walks.Walk`."""
    G = torch.cat([c[:, :-1], c[:, -1:] + last[:, None]], 1)
    decay = torch.cat([a[:, 1:], torch.zeros_like(a[:, :1])], 1)
    n = 1
    while n < G.shape[1]:
        G = torch.cat([G[:, :-n] + decay[:, :-n] * G[:, n:], G[:, -n:]], 1)
        decay = torch.cat([decay[:, :-n] * decay[:, n:], decay[:, -n:]], 1)
        n *= 2
    return G

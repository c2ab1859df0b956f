"""The recurrence in log2 T passes over whole tensors (Hillis and Steele's scan).

After a pass, a position holds the sum over its last n tokens, and the next pass adds the sum at the position n before,
times the product of its n numbers a. This is T log2 T work in a few large operations, for devices and graphs where many
small ones are slow.
"""

import torch
from torch import Tensor


def forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`."""
    first = a if a.ndim == 1 else a[:, 0]
    h = torch.cat([torch.addcmul(b[:, :1], first[..., None, :], state[:, None]), b[:, 1:]], 1)
    n, T = 1, h.shape[1]
    while n < T:
        if a.ndim == 1:
            h = torch.cat([h[:, :n], torch.addcmul(h[:, n:], a, h[:, :-n])], 1)
            a = a * a
        else:
            h = torch.cat([h[:, :n], torch.addcmul(h[:, n:], a[:, n:], h[:, :-n])], 1)
            a = torch.cat([a[:, :n], a[:, n:] * a[:, :-n]], 1)
        n *= 2
    return h

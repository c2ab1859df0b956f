"""The recurrence token by token in many blocks at once, in place.

A block is computed twice: first from a zero state, which gives what it adds to the state, then from the state at its
start. The states at the starts are a recurrence over blocks, with the products of the a of a block. This is three times
the work of the loop, in about 3 √T steps that are large enough for an operation of torch.
"""

import math

import torch
from torch import Tensor

WIDE = 8192
"""numbers of a token, over all rows, from which a block is the whole sequence: measured on one CPU core"""


def forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`."""
    B, T, N = b.shape
    h = b.new_empty(B, T, N)
    size = T if B * N >= WIDE or T < 32 else math.isqrt(T)
    whole = T - T % size
    if whole > size:
        rates, given, here = (x if x.ndim == 1 else x[:, :whole].unflatten(1, (-1, size)) for x in (a, b, h))
        product, added = _through(rates, given)
        ends = forward(product, added, state)  # the state at the end of each block
        _read(rates, given, here, torch.cat([state[:, None], ends[:, :-1]], 1))
        state = ends[:, -1]
    else:
        whole = 0
    if whole < T:
        _read(a if a.ndim == 1 else a[:, whole:], b[:, whole:], h[:, whole:], state)
    return h


def _through(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """The product of the a of a block (…, C, N), and what the block adds to a state."""
    size = b.shape[-2]
    added, product = b[..., 0, :].clone(), (a if a.ndim == 1 else a[..., 0, :]).clone()
    for t in range(1, size):
        rate = a if a.ndim == 1 else a[..., t, :]
        torch.addcmul(b[..., t, :], rate, added, out=added)
        product *= rate
    return product, added


def _read(a: Tensor, b: Tensor, h: Tensor, state: Tensor) -> None:
    """Every h (…, C, N) of blocks that begin with `state` (…, N)."""
    for t, (given, here) in enumerate(zip(b.unbind(-2), h.unbind(-2), strict=True)):
        torch.addcmul(given, a if a.ndim == 1 else a[..., t, :], state, out=here)
        state = here

"""The recurrence in plain torch: `scan_blocks`, token by token in many blocks at once, and `doubling`, in log2 T
passes.

A block is computed twice, in place: first from a zero state, whose last h is what the block adds to its state, then
from the state at its start. The states at the starts are a recurrence over blocks, whose factors are the products of
the a of each block. This is three times the work of the loop, in about 3 √T steps that are large enough for one
operation of torch each.

Doubling is Hillis and Steele's scan. After a pass, a position holds the sum over its last n tokens, and the next pass
adds the sum at the position n before, times the product of its n numbers a. This is T log2 T work in a few large
operations, for devices and graphs where many small ones are slow.
"""

import math

import torch
from torch import Tensor

WIDE = 8192
"""numbers of a token, over all rows, from which on the sequence is one block: measured on one CPU core"""


def scan_blocks(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; by blocks."""
    B, T, N = b.shape
    h = b.new_empty(B, T, N)
    size = T if B * N >= WIDE or T < 32 else math.isqrt(T)
    done = T - T % size  # tokens in whole blocks
    if done > size:
        a_blocks, b_blocks, h_blocks = (x if x.ndim == 1 else x[:, :done].unflatten(1, (-1, size)) for x in (a, b, h))
        product, added = _through(a_blocks, b_blocks)
        ends = scan_blocks(product, added, state)  # the state at the end of each block
        _loop(a_blocks, b_blocks, h_blocks, torch.cat([state[:, None], ends[:, :-1]], 1))
        state = ends[:, -1]
    else:
        done = 0
    if done < T:
        _loop(a if a.ndim == 1 else a[:, done:], b[:, done:], h[:, done:], state)
    return h


def _through(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Of each block (…, C, N) the product of its a, and its last h from a zero state: both (…, N)."""
    size = b.shape[-2]
    added, product = b[..., 0, :].clone(), (a if a.ndim == 1 else a[..., 0, :]).clone()
    for t in range(1, size):
        a_t = a if a.ndim == 1 else a[..., t, :]
        torch.addcmul(b[..., t, :], a_t, added, out=added)
        product *= a_t
    return product, added


def _loop(a: Tensor, b: Tensor, h: Tensor, state: Tensor) -> None:
    """Writes into h (…, C, N) every h of blocks that begin with `state` (…, N)."""
    for t, (b_t, h_t) in enumerate(zip(b.unbind(-2), h.unbind(-2), strict=True)):
        torch.addcmul(b_t, a if a.ndim == 1 else a[..., t, :], state, out=h_t)
        state = h_t


def doubling(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; by doubling."""
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

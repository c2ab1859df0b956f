"""The decays inside a chunk of C tokens: exponentials of sums of its g, never of a difference of two sums.

None stands for no decay.
"""

from typing import NamedTuple

from torch import Tensor


class Fading(NamedTuple):
    """The decays of chunks, broadcastable to (B, H, N, …)."""

    between: Tensor
    """(…, i, j): e^{g_{j+1} + … + g_i}, 0 where j > i"""
    since: Tensor
    """(…, i, 1): e^{g_1 + … + g_i}"""
    until: Tensor
    """(…, j, 1): e^{g_{j+1} + … + g_C}"""
    across: Tensor
    """(…, 1, 1): e^{g_1 + … + g_C}"""


def fading(g: Tensor | None, C: int) -> Fading | None:
    """The decays of g (H,) or (B, H, T), T a multiple of C."""
    if g is None:
        return None
    g = g.unflatten(2, (-1, C)) if g.ndim == 3 else g[:, None, None].expand(-1, 1, C)  # (B, H, N, C) or (H, 1, C)
    sums = g[..., None].expand(*g.shape, C).tril(-1).cumsum_(-2)
    until, since = sums[..., -1, :].exp(), g.cumsum(-1).exp_()
    return Fading(sums.exp_().tril_(), since[..., None], until[..., None], since[..., -1:, None])


def masked(a: Tensor, f: Fading | None) -> Tensor:
    """a (…, i, j) times the decay from j to i, and 0 where j > i; written in place."""
    return a.tril_() if f is None else a.mul_(f.between)


def scaled(x: Tensor, by: Tensor | None) -> Tensor:
    """x times one of the decays, if there is one."""
    return x if by is None else x * by

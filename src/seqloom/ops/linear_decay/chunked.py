"""The decaying sum by chunks of C tokens, the last of which may be shorter."""

import torch
from torch import Tensor

from seqloom.ops.linear_decay import chunks

CHUNK = 64
"""tokens of a chunk: with heads of width 64 on a CPU core, 32 is as fast and 128 is 13% to 67% slower"""


def decay(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, chunk: int | None = None
) -> tuple[Tensor, Tensor]:
    """The equation of `seqloom.ops.linear_decay`; shapes as in `decay` there, T at least 1."""
    T = q.shape[2]
    if g is not None and g.ndim == 4:
        return chunks.by_channel(q, k, v, g, state, min(chunk or chunks.CHANNEL_CHUNK, T))
    chunk = chunk or CHUNK
    split = T - T % chunk  # whole chunks before it, a shorter one after it
    if split in (0, T):
        return chunks.by_head(q, k, v, g, state, min(chunk, T))
    first_g, last_g = (g, g) if g is None or g.ndim == 1 else (g[:, :, :split], g[:, :, split:])
    first_y, state = chunks.by_head(q[:, :, :split], k[:, :, :split], v[:, :, :split], first_g, state, chunk)
    last_y, state = chunks.by_head(q[:, :, split:], k[:, :, split:], v[:, :, split:], last_g, state, T - split)
    return torch.cat([first_y, last_y], 2), state

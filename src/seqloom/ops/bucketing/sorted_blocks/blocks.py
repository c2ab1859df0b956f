"""Computes all blocks at once: the mixtures of blocks, then products of each block with itself and its mixture."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad


def attend(
    q: Tensor, k: Tensor, v: Tensor, weights: Tensor, block: int, causal: bool, cut: int | None, lengths: Tensor | None
) -> Tensor:
    """Attention of each block to its own and its sorted block: `attend` of the package, by blocks."""
    T, N = q.shape[2], weights.shape[2]
    real = torch.arange(N * block, device=q.device) < (T if lengths is None else lengths[:, None])  # not padding
    real = real.expand(len(q), -1)
    q, k, v = (pad(x, (0, 0, 0, N * block - T)) for x in (q, k, v))
    if lengths is not None:
        k, v = (torch.where(real[:, None, :, None], x, 0.0) for x in (k, v))
    q, k, v = (x.unflatten(2, (N, block)) for x in (q, k, v))
    sorted_k, sorted_v = (mix_blocks(weights[:, :, :cut], x) for x in (k, v))
    real = real.unflatten(1, (N, block))
    index = torch.arange(N, device=q.device)[:, None]
    # causal: all blocks but the first; else the slots that the first block has, in blocks that have a token
    sorted_visible = index > 0 if causal else real[:, :1] & real[:, :, :1]
    sorted_visible = sorted_visible.expand(len(q), N, block)
    if cut is None:
        y = read(q, sorted_k, sorted_v, k, v, sorted_visible, real, causal)
    else:
        keys, values = (x.flatten(2, 3) for x in (sorted_k, sorted_v))
        y = attend_shared_slots(q.flatten(2, 3), keys, values, sorted_visible[:, :cut].flatten(1)).unflatten(
            2, (N, block)
        )
    return y.flatten(2, 3)[:, :, :T]


def mix_blocks(weights: Float[Tensor, "B H N M"], x: Float[Tensor, "B H M b K"]) -> Float[Tensor, "B H N b K"]:
    """Mixtures of M blocks x by the weights, slot by slot."""
    return (weights @ x.flatten(3)).unflatten(3, x.shape[3:])


def read(
    q: Float[Tensor, "B H N c K"],
    sorted_k: Float[Tensor, "B H N b K"],
    sorted_v: Float[Tensor, "B H N b V"],
    k: Float[Tensor, "B H N b K"],
    v: Float[Tensor, "B H N b V"],
    sorted_visible: Bool[Tensor, "B N b"],
    own_visible: Bool[Tensor, "B N b"],
    causal: bool,
) -> Float[Tensor, "B H N c V"]:
    """The outputs of the queries of each block, over the visible slots of its sorted block and of itself.

    If `causal`, the query in slot c reads its own block up to slot c.
    """
    visible = torch.cat([sorted_visible, own_visible], -1)[:, None, :, None]
    if causal:
        past = torch.ones(q.shape[3], k.shape[3], dtype=torch.bool, device=q.device).tril()
        visible = visible & torch.cat([torch.ones_like(past), past], -1)
    return _attention(q, torch.cat([sorted_k, k], 3), torch.cat([sorted_v, v], 3), visible)


def attend_shared_slots(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C V"],
    visible: Bool[Tensor, "#B C"],
) -> Float[Tensor, "B H T V"]:
    """The outputs of queries that all read the same slots."""
    return _attention(q, k, v, visible[:, None, None])


def _attention(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """softmax(q kᵀ / √K) v over the visible keys; 0 for a query without visible keys."""
    z = (q @ k.mT / q.shape[-1] ** 0.5).to(torch.promote_types(q.dtype, torch.float32))
    z = z.masked_fill(~visible, torch.finfo(z.dtype).min)
    return torch.where(visible, z.softmax(-1), 0.0).to(v.dtype) @ v

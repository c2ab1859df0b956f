"""Computes all blocks at once: the mixtures of blocks, then products of each block with itself and its mixture."""

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn.functional import pad


def attend(
    q: Tensor, k: Tensor, v: Tensor, weights: Tensor, block: int, causal: bool, cut: int | None, lengths: Tensor | None
) -> Tensor:
    """Attention of each block to its own and its sorted block: `seqloom.ops.sorted_blocks.attend` by blocks."""
    T, N = q.shape[2], weights.shape[2]
    real = torch.arange(N * block, device=q.device) < (T if lengths is None else lengths[:, None])
    real = real.expand(len(q), -1)
    q, k, v = (pad(x, (0, 0, 0, N * block - T)) for x in (q, k, v))
    if lengths is not None:
        k, v = (torch.where(real[:, None, :, None], x, 0.0) for x in (k, v))
    q, k, v = (x.unflatten(2, (N, block)) for x in (q, k, v))
    sorted_k, sorted_v = (mixed(weights[:, :, :cut], x) for x in (k, v))
    real = real.unflatten(1, (N, block))
    number = torch.arange(N, device=q.device)[:, None]
    of_sorted = number > 0 if causal else real[:, :1] & real[:, :, :1]  # slots of the first block, in real blocks
    of_sorted = of_sorted.expand(len(q), N, block)
    if cut is None:
        y = read(q, sorted_k, sorted_v, k, v, of_sorted, real, causal)
    else:
        keys, values = (x.flatten(2, 3) for x in (sorted_k, sorted_v))
        y = shared(q.flatten(2, 3), keys, values, of_sorted[:, :cut].flatten(1)).unflatten(2, (N, block))
    return y.flatten(2, 3)[:, :, :T]


def mixed(weights: Float[Tensor, "B H N M"], x: Float[Tensor, "B H M b K"]) -> Float[Tensor, "B H N b K"]:
    """Mixtures of blocks, slot by slot."""
    return (weights @ x.flatten(3)).unflatten(3, x.shape[3:])


def read(
    q: Float[Tensor, "B H N c K"],
    sorted_k: Float[Tensor, "B H N b K"],
    sorted_v: Float[Tensor, "B H N b V"],
    k: Float[Tensor, "B H N b K"],
    v: Float[Tensor, "B H N b V"],
    of_sorted: Bool[Tensor, "B N b"],
    of_own: Bool[Tensor, "B N b"],
    causal: bool,
) -> Float[Tensor, "B H N c V"]:
    """The outputs of the queries of each block, over its sorted block and itself, without hidden slots.

    If `causal`, the query in slot c reads its own block up to slot c.
    """
    visible = torch.cat([of_sorted, of_own], -1)[:, None, :, None]
    if causal:
        past = torch.ones(q.shape[3], k.shape[3], dtype=torch.bool, device=q.device).tril()
        visible = visible & torch.cat([torch.ones_like(past), past], -1)
    return _softly(q, torch.cat([sorted_k, k], 3), torch.cat([sorted_v, v], 3), visible)


def shared(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C V"],
    visible: Bool[Tensor, "#B C"],
) -> Float[Tensor, "B H T V"]:
    """The outputs of queries that all read the same slots."""
    return _softly(q, k, v, visible[:, None, None])


def _softly(q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
    """softmax(q kᵀ / √K) v over the visible keys; 0 where real are none."""
    z = (q @ k.mT / q.shape[-1] ** 0.5).to(torch.promote_types(q.dtype, torch.float32))
    z = z.masked_fill(~visible, torch.finfo(z.dtype).min)
    return torch.where(visible, z.softmax(-1), 0.0).to(v.dtype) @ v

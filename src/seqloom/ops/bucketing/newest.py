"""Attention inside buckets for one token of every row: over the newest keys of its buckets in a cache."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.bucketing.orders import Rule


def newest(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C V"],
    buckets: Int[Tensor, "B H C R"],
    own_buckets: Int[Tensor, "B H 1 R"],
    now: Int[Tensor, " B"],
    then: Int[Tensor, "B C"],
    rule: Rule,
) -> Float[Tensor, "B H 1 V"]:
    """The output of a token at time `now`, over the w latest keys of its bucket in each of R rounds.

    The cache holds the token itself. `buckets` and `own_buckets` are the buckets of the cache's tokens and of the
    token; `then` has the times of the cache's tokens, negative for empty slots.
    """
    assert rule.latest is not None
    here = torch.where(buckets == own_buckets, then[:, None, :, None], -1).transpose(2, 3)  # (B, H, R, C)
    times, places = (x.flatten(2) for x in here.topk(min(rule.latest + 1, here.shape[3])))
    i, same = now[:, None, None], torch.zeros_like(times)
    looks = rule.looked(i, same, times, same)
    looks = looks | ((times == i) & ~looks.any(-1, keepdim=True))  # the token's own key where there is no other
    k, v = (x.gather(2, places[..., None].expand(-1, -1, -1, x.shape[3])) for x in (k, v))
    z = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)).masked_fill(~looks[:, :, None], -torch.inf)
    return z.softmax(-1).to(v.dtype) @ v

"""One token of every row, read out of a cache: the newest keys of its buckets."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.bucketing.orders import Rule


def newest(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B H C K"],
    v: Float[Tensor, "B H C V"],
    buckets: Int[Tensor, "B H C R"],
    own: Int[Tensor, "B H 1 R"],
    now: Int[Tensor, " B"],
    then: Int[Tensor, "B C"],
    rule: Rule,
) -> Float[Tensor, "B H 1 V"]:
    """What a token read at `now` looks at in a cache that holds it: its w latest keys in each of R rounds.

    `then` says when the tokens of the cache were read, and is negative where there is none.
    """
    assert rule.latest is not None
    here = torch.where(buckets == own, then[:, None, :, None], -1).transpose(2, 3)  # (B, H, R, C)
    times, places = (x.flatten(2) for x in here.topk(min(rule.latest + 1, here.shape[3])))
    i, same = now[:, None, None], torch.zeros_like(times)
    looks = rule.looked(i, same, times, same)
    looks = looks | ((times == i) & ~looks.any(-1, keepdim=True))  # its own key, where there is no other
    k, v = (x.gather(2, places[..., None].expand(-1, -1, -1, x.shape[3])) for x in (k, v))
    z = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)).masked_fill(~looks[:, :, None], -torch.inf)
    return z.softmax(-1).to(v.dtype) @ v

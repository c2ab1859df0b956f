"""Attention inside buckets: tokens are sorted by bucket and time, and cut into chunks of slots.

    o_s                                    the token in slot s of an order; its chunk is ⌊s/m⌋
    P_s = {s' : o_s' ≤ o_s, same bucket}   s' in the chunk of s or in the one before, or s and the w slots before it
    y_i = Σ_s Σ_{s' ∈ P_s} e^{z_ss'} v_{o_s'} / Σ_s Σ_{s' ∈ P_s} e^{z_ss'},   z_ss' = q_{o_s} · k_{o_s'}

over all slots s of token i: with several orders a token has several slots, whose averages are joined by their
log-sum-exps. The output of a token without a slot is 0. Where queries and keys are the same vectors (`alone`), a token
does not attend to itself, unless it has no other key in any order: then y_i = v_i.

Code: m is `chunk`, w is `latest`.

Source: Kitaev et al., Reformer, arXiv:2001.04451, section 2 and Eq. 5-9. What differs: the paper subtracts log N_ij
from a score that N orders have, so that no pair counts twice. Its authors' program by default, `transformers` and this
code do not.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.ops.bucketing import blocks, chunks, reference
from seqloom.ops.bucketing.orders import Order, Rule, balance_clusters, by_bucket
from seqloom.ops.native import is_observed
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op

__all__ = ["OP", "Order", "Rule", "attend", "balance_clusters", "by_bucket", "newest"]

SHORT = 1 << 12
"""the most slots of all rows for which autograd's backward pass is faster"""


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    time: Int[Tensor, "B T"],
    order: Order,
    rule: Rule,
) -> Float[Tensor, "B H T V"]:
    """The outputs y. `time` has the times of the tokens, negative for padding. `blocks` has no second derivatives."""
    run = OP[OP.choose(q, order, rule)]
    y: Tensor = run(q, k, v, time, order, rule)
    return y


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
    """As `attend` for one token of every row, at time `now`: over the w latest keys of its bucket in each of R rounds.

    The cache holds the token itself. `buckets` and `own_buckets` are the buckets of the cache's tokens and of the
    token; `then` has the times of the cache's tokens, negative for empty slots.
    """
    assert rule.latest is not None
    times_in_bucket = torch.where(buckets == own_buckets, then[:, None, :, None], -1).transpose(2, 3)  # (B, H, R, C)
    times, slots = (x.flatten(2) for x in times_in_bucket.topk(min(rule.latest + 1, times_in_bucket.shape[3])))
    i = now[:, None, None]
    bucket = torch.zeros_like(times)  # all keys that are left are in the bucket of the token
    visible = rule.visible(i, bucket, times, bucket)
    visible = visible | ((times == i) & ~visible.any(-1, keepdim=True))  # the token's own key where there is no other
    k, v = (x.gather(2, slots[..., None].expand(-1, -1, -1, x.shape[3])) for x in (k, v))
    z = (q @ k.mT).to(torch.promote_types(q.dtype, torch.float32)).masked_fill(~visible[:, :, None], -torch.inf)
    return z.softmax(-1).to(v.dtype) @ v


def choose_backend(q: Tensor, order: Order, rule: Rule) -> str:
    """The fastest backend: `chunks` for few slots, otherwise `blocks` if it supports the call."""
    return "blocks" if _in_blocks(q, order, rule) and order.tokens.numel() > SHORT else "chunks"


def _in_blocks(q: Tensor, order: Order, rule: Rule) -> bool:
    """Whether `blocks` supports the call: not in a captured graph, nor where tokens attend to other buckets."""
    return blocks.supports(rule) and not (capturing() or is_observed(q))


def _example(rule: Rule, together: bool = False) -> Example:
    """Tokens in three buckets of two rounds."""

    def example(draw: Draw, B: int, T: int) -> Tensor:
        q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
        index = torch.arange(B * 8 * T).view(B, 4, 2, T)
        time = torch.arange(T).expand(B, T)
        order = by_bucket(index * index // 5 % 3, time, together)
        return attend(q, k, v, time, order, rule)

    return example


def _draw_balanced_order(draw: Draw, B: int, T: int) -> Tensor:
    """Three clusters, in which some tokens are twice and some not at all."""
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    time = torch.arange(T).expand(B, T)
    order = balance_clusters(q[..., :3].detach(), time)
    return attend(q, k, v, time, order, Rule(order.tokens.shape[3], back=False))


OP = Op(
    "bucketing",
    {
        "reference": Backend(reference.attend),
        "chunks": Backend(chunks.attend, plain=True),
        "blocks": Backend(blocks.attend, fits=_in_blocks),
    },
    rule=choose_backend,
    examples=(
        _example(Rule(2)),
        _example(Rule(3, same=False, wrap=True), together=True),
        _example(Rule(2, latest=1)),
        _example(Rule(4, back=False, causal=False, alone=False, context=5)),
        _example(Rule(2, causal=False)),
        _draw_balanced_order,
    ),
    price=reference.price,
)

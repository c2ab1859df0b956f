"""The equation as it is written, slot by slot, and its price, counted from it; slow.

No maximum is subtracted from the scores, because the equation has none. The price has the scores of all slots in the
window of a slot, their masks, and the sums. Which slots hold another bucket or a later token depends on the data, so
masked scores are counted too.
"""

import torch
from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.ops.bucketing.orders import Order, Rule


def attend(q: Tensor, k: Tensor, v: Tensor, time: Tensor, order: Order, rule: Rule) -> Tensor:
    """See `attend` of the package."""
    rows = [
        torch.stack([_head(q[b, h], k[b, h], v[b, h], time[b], order, b, h, rule) for h in range(q.shape[1])])
        for b in range(len(q))
    ]
    return torch.stack(rows)


def _head(q: Tensor, k: Tensor, v: Tensor, time: Tensor, order: Order, b: int, h: int, rule: Rule) -> Tensor:
    """One head of one row: (T, K), (T, K), (T, V) → (T, V)."""
    slots, used = order.tokens.shape[3], int(order.used[b])
    windows = [rule.window(s, max(s + 1, used if rule.wrap else slots)) for s in range(slots)]
    keys: list[list[Tensor]] = [[] for _ in q]
    visible: list[list[Tensor]] = [[] for _ in q]
    for tokens, buckets in zip(order.tokens[b, h], order.buckets[b, h], strict=True):
        for s, window in enumerate(windows):
            i, j = tokens[s], tokens[window]
            if int(i) >= 0:
                keys[int(i)].append(j)
                visible[int(i)].append(_visible(time, i, j, buckets[s], buckets[window], rule))
    if not order.whole:
        return _sums(q, k, v, keys, visible, rule)
    return torch.stack([_token(i, q, k, v, keys[i], visible[i], rule) for i in range(len(q))])


def _token(i: int, q: Tensor, k: Tensor, v: Tensor, keys: list[Tensor], visible: list[Tensor], rule: Rule) -> Tensor:
    """The output (V,) of token i, over the keys (n,) of its slots that it sees."""
    j, seen = torch.cat(keys), torch.cat(visible)
    if rule.alone and not seen.any():
        seen = j == i
    z = (k[j] @ q[i]).masked_fill(~seen, -torch.inf)
    return z.softmax(0) @ v[j]


def _sums(q: Tensor, k: Tensor, v: Tensor, keys: list[list[Tensor]], visible: list[list[Tensor]], rule: Rule) -> Tensor:
    """The outputs of all tokens, where some have no slot: sums that begin at 0."""
    values, sums = torch.zeros_like(v), torch.zeros_like(v[:, :1])
    for i in range(len(q)):
        only_itself = rule.alone and not any(bool(seen.any()) for seen in visible[i])
        for j, seen in zip(keys[i], visible[i], strict=True):
            e = (k[j] @ q[i]).masked_fill(~((j == i) if only_itself else seen), -torch.inf).exp()
            row = torch.tensor([i])
            values = values.index_add(0, row, (e @ v[j])[None])
            sums = sums.index_add(0, row, e.sum()[None, None])
    return values / sums.masked_fill(sums == 0, 1.0)


def _visible(time: Tensor, i: Tensor, j: Tensor, query_bucket: Tensor, key_bucket: Tensor, rule: Rule) -> Tensor:
    """Whether the slot of token i attends to those of tokens j (n,), -1 for none."""
    query_time, key_time = (torch.where(tokens < 0, -1, time[tokens.clamp(min=0)]) for tokens in (i, j))
    return rule.visible(query_time, query_bucket, key_time, key_bucket)


def price(tokens: int, terms: int, width: int, values: int) -> Cost:
    """The price of `tokens` tokens that read `terms` slots in all, over all heads, if every token has one slot.

    `width` is the width of keys, `values` that of values.
    """
    return Cost(
        mul=terms * (width + values),
        add=terms * (width - 1) + (terms - tokens) * (1 + values),
        div=terms,
        exp=terms,
        other=terms,  # masks
        path=(
            *("multiplication", "cumulation", "other", "exponentiation", "cumulation", "division"),
            *("multiplication", "cumulation"),
        ),
    )


def scattered_price(tokens: int, terms: int, width: int, values: int) -> Cost:
    """As `price`, if tokens have any number of slots: the sums of each slot, then those of each token."""
    return Cost(
        mul=terms * (width + values),
        add=terms * (width - 1) + terms * (1 + values),
        div=tokens * values,
        exp=terms,
        other=terms + 2 * tokens,  # masks; tokens without a slot
        path=(
            *("multiplication", "cumulation", "other", "exponentiation", "multiplication", "cumulation"),
            *("cumulation", "other", "division"),
        ),
    )


def clustered_price(vectors: int, width: int, clusters: int, others: int) -> Cost:
    """The price of assigning `vectors` vectors: products with all centroids, and comparisons of each product."""
    n = vectors * clusters
    return Cost(mul=n * width, add=n * (width - 1), other=others, path=("multiplication", "cumulation", "other"))


def unit_price(vectors: int, width: int) -> Cost:
    """The price of normalizing `vectors` vectors: squares, their sum and ε, an inverse root, and a product."""
    return Cost(
        mul=2 * vectors * width,
        add=vectors * width,
        div=vectors,
        other=vectors,
        path=("multiplication", "cumulation", "addition", "other", "division", "multiplication"),
    )


def hashed_price(vectors: int, width: int, rounds: int, buckets: int) -> Cost:
    """The price of hashing `vectors` vectors: products with `buckets` / 2 directions per round, and the largest."""
    directions = rounds * buckets // 2
    return Cost(
        mul=vectors * directions * width,
        add=vectors * directions * (width - 1),
        other=vectors * rounds * 2 * (buckets // 2),
        path=("multiplication", "cumulation", "other", "other"),
    )

"""The largest of numbers with a rule for equal ones: the first. torch's `topk` takes equal ones in any order.

Equal scores are common: a token that repeats has the same score wherever nothing tells its places apart. Which of them
are taken must not depend on padding, or on the other rows.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor


def largest(scores: Float[Tensor, "*B N"], count: int) -> tuple[Float[Tensor, "*B K"], Int[Tensor, "*B K"]]:
    """The K = min(count, N) largest of each row, in descending order, and their places; of equal ones the first."""
    N = scores.shape[-1]
    count = min(count, N)
    if count == 0:
        return scores[..., :0], scores[..., :0].long()
    least = scores.topk(count, -1).values[..., -1:]
    is_above, is_least = scores > least, scores == least
    left = count - is_above.sum(-1, keepdim=True)
    taken = is_above | (is_least & (is_least.cumsum(-1) <= left))
    place = torch.arange(N, device=scores.device)
    # places of taken numbers are below N, so that the smallest are these, in order; with NaN there are fewer
    places = torch.where(taken, place, N).topk(count, -1, largest=False).values.clamp(max=N - 1)
    values = scores.gather(-1, places)
    order = values.argsort(dim=-1, descending=True, stable=True)
    return values.gather(-1, order), places.gather(-1, order)

"""Causal attention under a soft mask whose length, the span, is learned per head or computed per query.

    m_ij = clip((R + s_i - (i-j)) / R, 0, 1)              s_i: the span of query i, in tokens; R: the length of the ramp
    z_ij = q_i · k_j / √K,   y_i = Σ_j m_ij e^{z_ij} v_j / Σ_j m_ij e^{z_ij}              per head, j from i-W+1 to i

W is the `window`. Where W ≥ R + s, keys beyond the window have m = 0, so leaving them out changes nothing.

Source: Sukhbaatar et al., arXiv:1905.07799, section 2.2, without its vectors of relative positions. There the sum runs
to i-1; here it includes i, for which m is 1, so that no query is without a key.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqloom.ops.attention.adaptive_span import reference
from seqloom.ops.native import is_observed
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

TILE = 128
"""queries of a tile"""


def attend_spans(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H N K"],
    v: Float[Tensor, "B H N V"],
    spans: Float[Tensor, "#B H #T"],
    ramp: int,
    window: int,
    query_time: Int[Tensor, "B T"] | None = None,
    key_time: Int[Tensor, "B N"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs y. Times are 0, 1, … where they are not given; a token with a negative time is padding.

    The output of a query that sees no key is 0.
    """
    y: Tensor = OP[OP.choose(q)](q, k, v, spans, ramp, window, query_time, key_time)
    return y


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "tiles"


def tiles(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    spans: Tensor,
    ramp: int,
    window: int,
    query_time: Tensor | None,
    key_time: Tensor | None,
) -> Tensor:
    """The backend `tiles`: a tile of queries at a time, over the keys in its window; backward recomputes it."""
    T, N = q.shape[2], k.shape[2]
    now = torch.arange(T, device=q.device)[None] if query_time is None else query_time
    then = torch.arange(N, device=q.device)[None] if key_time is None else key_time
    spans = spans.expand(-1, -1, T)
    whole_sequence = query_time is None and key_time is None
    if not whole_sequence or T <= TILE or is_observed(q):
        return _tile(q, k, v, spans, ramp, window, now, then)
    outputs = []
    for start in range(0, T, TILE):
        queries = slice(start, start + TILE)
        keys = slice(max(0, start + 1 - window), min(start + TILE, T))
        inputs = (
            q[:, :, queries],
            k[:, :, keys],
            v[:, :, keys],
            spans[:, :, queries],
            ramp,
            window,
            now[:, queries],
            then[:, keys],
        )
        outputs.append(checkpoint(_tile, *inputs, use_reentrant=False) if torch.is_grad_enabled() else _tile(*inputs))
    return torch.cat(outputs, 2)


def _tile(q: Tensor, k: Tensor, v: Tensor, spans: Tensor, ramp: int, window: int, now: Tensor, then: Tensor) -> Tensor:
    """The outputs of queries at times `now` (B, T), over keys at times `then` (B, N), with spans (B, H, T)."""
    wide_dtype = torch.promote_types(q.dtype, torch.float32)
    age = (now[:, None, :, None] - then[:, None, None, :]).to(wide_dtype)
    m = ((ramp + spans.to(wide_dtype)[..., None] - age) / ramp).clamp(0, 1)
    visible = (m > 0) & (age >= 0) & (age < window) & (then >= 0)[:, None, None, :]
    z = (q @ k.mT).to(wide_dtype) / q.shape[3] ** 0.5
    z = z.masked_fill(~visible, -math.inf)
    largest = z.detach().amax(-1, keepdim=True).clamp(min=torch.finfo(wide_dtype).min)
    e = m * (z - largest).exp()
    total = e.sum(-1, keepdim=True)
    return (e / total.masked_fill(total == 0, 1.0)).to(v.dtype) @ v


def _span_per_head(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return attend_spans(q, k, v, draw(1, 4, 1).abs(), ramp=3, window=5)


def _span_per_query(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return attend_spans(q, k, v, 3 * draw(B, 4, T).abs(), ramp=2, window=T)


OP = Op(
    "adaptive_span",
    {"reference": Backend(reference.attend_spans), "tiles": Backend(tiles, plain=True)},
    rule=choose_backend,
    examples=(_span_per_head, _span_per_query),
    price=reference.price,
)

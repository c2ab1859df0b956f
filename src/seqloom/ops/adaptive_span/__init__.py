"""Causal attention under a soft mask whose length, the span, is learned per head or computed per query.

    m_ij = clip((R + s_i - (i-j)) / R, 0, 1)              s_i: the span of query i, in tokens; R: the length of the ramp
    z_ij = q_i · k_j / √K,   y_i = Σ_j m_ij e^{z_ij} v_j / Σ_j m_ij e^{z_ij}              per head, j from i-W+1 to i

W is the `window`. Where W ≥ R + s, keys beyond the window have m = 0, so leaving them out changes nothing.

Source: Sukhbaatar et al., arXiv:1905.07799, section 2.2, without its vectors of relative positions. There the sum runs
to i-1; here it includes i, for which m is 1, so that no query is without a key.
"""

from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.adaptive_span import reference, tiles
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def spanned(
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


def by_size(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "tiles"


def _of_heads(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return spanned(q, k, v, draw(1, 4, 1).abs(), ramp=3, window=5)


def _of_queries(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return spanned(q, k, v, 3 * draw(B, 4, T).abs(), ramp=2, window=T)


OP = Op(
    "adaptive_span",
    {"reference": Backend(reference.spanned), "tiles": Backend(tiles.spanned)},
    rule=by_size,
    examples=(_of_heads, _of_queries),
    price=reference.price,
)

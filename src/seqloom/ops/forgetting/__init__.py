"""Attention whose scores forget: between a query and a key, each token takes off the logarithm of its gate.

    z_ij = q_i · k_j / √K + Σ_{j<s≤i} g_s,   a_ij = e^{z_ij} / Σ_{j'≤i} e^{z_ij'},   y_i = Σ_{j≤i} a_ij v_j      g ≤ 0

The sums c_i - c_j, c_i = Σ_{s≤i} g_s, are two more channels: (1, c_i) of queries times (-c_j, 1) of keys, and no number
is held for each pair. They are added up in float64 and counted from a block's first query, which no later token moves:
float32 rounds them to eps times a block's sum, and what is far weighs nothing. That of c_i changes no output; what it
receives in a backward takes off the rounding that each query's scores have in common, of which the gates' gradients
would be the sum.

Source: Lin et al., Forgetting Transformer, arXiv:2503.02130, section 3. Nothing differs.
"""

from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.forgetting import columns, price, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def forgetting(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H N K"],
    v: Float[Tensor, "B H N V"],
    g: Float[Tensor, "B H T"],
    past: Float[Tensor, "B H P"] | None = None,
    *,
    window: int | None = None,
    query_time: Int[Tensor, "B T"] | None = None,
    key_time: Int[Tensor, "B N"] | None = None,
) -> Float[Tensor, "B H T V"]:
    """Each query over the keys before it and its own, at most `window` of them.

    Of N = P + T keys the first P were read before: `past` holds the sum of g over the tokens after each of them. Times
    are 0, 1, … where they are not given, as they must be with a past; a key with a negative time is empty.
    """
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    run = OP[OP.choose(q)]
    y: Tensor = run(q, k, v, g, past, window, query_time, key_time)
    return y


def by_size(q: Tensor) -> str:
    """The only fast backend."""
    return "columns"


def _example(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return forgetting(q, k, v, -draw(B, 4, T).square())


def _window(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return forgetting(q, k, v, -draw(B, 4, T).square(), window=3)


OP = Op(
    "forgetting",
    {
        "reference": Backend(reference.forgetting),
        "columns": Backend(columns.forgetting),
    },
    rule=by_size,
    examples=(_example, _window),
    price=price,
)

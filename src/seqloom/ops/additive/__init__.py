"""Additive attention: scores by a layer of tanh over the sum of a query and a key.

    e_ij = Σ_c w_c tanh(q_ic + k_jc),   a_ij = e^{e_ij} / Σ_{j'} e^{e_ij'},   y_i = Σ_j a_ij v_j        per head

j runs over the positions up to i, or over all. A pair of positions takes K evaluations of tanh, which is no matrix
product: a head takes time T² K. Queries are computed in blocks that hold at most `blocks.NUMBERS` values of tanh.

Source: Bahdanau et al., arXiv:1409.0473, section 3.1 and Appendix A.1.2. Nothing differs.
"""

from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops.additive import blocks, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


def additive(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H N K"],
    v: Float[Tensor, "B H N V"],
    w: Float[Tensor, "H K"],
    *,
    causal: bool = True,
    query_time: Int[Tensor, "B T"] | None = None,
    key_time: Int[Tensor, "B N"] | None = None,
    window: int | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs y. A query sees keys less than `window` before it, itself, and, if not `causal`, later ones alike.

    Times are 0, 1, … where they are not given; a key with a negative time is empty. The output of a query that sees no
    key is 0. Differentiable twice.
    """
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    run = OP[OP.choose(q)]
    y: Tensor = run(q, k, v, w, causal, query_time, key_time, window)
    return y


def by_size(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "blocks"


def _causal(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return additive(q, k, v, draw(4, CHANNELS // 4), window=4)


def _whole(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return additive(q, k, v, draw(4, CHANNELS // 4), causal=False)


OP = Op(
    "additive",
    {"reference": Backend(reference.additive), "blocks": Backend(blocks.additive)},
    rule=by_size,
    examples=(_causal, _whole),
    price=reference.price,
)

"""Attention of a block to itself and to a weighted mixture of other blocks, a soft sorting of blocks.

    k̃_i = Σ_j w_ij k_j,   ṽ_i = Σ_j w_ij v_j            blocks of b tokens, slot by slot; causal, j < i
    y_t = softmax(q_t · [k̃_i, k_i] / √K) [ṽ_i, v_i]      over the b slots of both, i the block of t; causal, over tokens
                                                         of its own block up to t
    y_t = softmax(q_t · [k̃_0 … k̃_{n-1}] / √K) [ṽ_0 …]    with `cut` n (SortCut): bidirectional, linear in T

Slots without a token in any block are hidden; so is the sorted block of the first block, if causal.

Source: Tay et al., Sparse Sinkhorn Attention, arXiv:2002.11296, sections 3.2 and 3.3. What differs: in the paper the
score of a token is the sum of both products; here, as in the authors' program, the softmax is over both.
"""

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths
from seqloom.ops.bucketing.sorted_blocks import blocks, reference
from seqloom.ops.bucketing.sorted_blocks.reference import price
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op

__all__ = ["OP", "attend", "price"]


def attend(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    weights: Float[Tensor, "B H N N"],
    block: int,
    causal: bool = True,
    cut: int | None = None,
    lengths: Lengths | None = None,
) -> Float[Tensor, "B H T V"]:
    """The outputs y, with N = ⌈T/b⌉ blocks of `block` = b tokens and their weights w.

    With `lengths` (B,) a row has that many tokens; outputs after them are arbitrary.
    """
    y: Tensor = OP[OP.choose(q)](q, k, v, weights, block, causal, cut, lengths)
    return y


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "blocks"


def _example(causal: bool, cut: int | None = None) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
        N = -(-T // 3)
        weights = draw(B, 4, N, N).softmax(-1)
        return attend(q, k, v, weights.tril(-1) if causal else weights, 3, causal, cut)

    return example


OP = Op(
    "sorted_blocks",
    {"reference": Backend(reference.attend), "blocks": Backend(blocks.attend, plain=True)},
    rule=choose_backend,
    examples=(_example(True), _example(False), _example(False, 2)),
    price=reference.price,
)

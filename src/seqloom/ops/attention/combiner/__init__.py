"""Combiner: causal attention to all tokens as a structured expectation: a few tokens directly, the others by regions.

    p_i  = softmax of q_i · k_j / √K over the tokens j that i reads directly and q_i · k_Ω / √K over its regions Ω
    v_Ω  = Σ_{j∈Ω} e^{q_Ω · k_j / √K} v_j / Σ_{j∈Ω} e^{q_Ω · k_j / √K},     q_Ω = max_{j∈Ω} q_j,  k_Ω = max_{j∈Ω} k_j
    y_i  = Σ_j p_i(j) v_j + Σ_Ω p_i(Ω) v_Ω

Direct tokens and regions together contain every token up to i once, so that the weights of tokens sum to 1:

    fixed      i's block of b tokens up to i;    each block before it
    axial      the same;                         each column of the blocks before it: every b-th token
    logsparse  i alone;                          stretches of 2^l tokens, one for each bit of i, the largest first

Source: Ren et al., Combiner, arXiv:2107.05768, sections 3 and 4 with max pooling. `axial` is the paper's row-major
form, whose columns the authors' program reads in a separate layer.
"""

from typing import Literal, TypeAlias, get_args

from jaxtyping import Float
from torch import Tensor

from seqloom.ops.attention.combiner import blocks, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op

Form: TypeAlias = Literal["fixed", "axial", "logsparse"]
FORMS: tuple[Form, ...] = get_args(Form)


def combine(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T K"],
    v: Float[Tensor, "B H T V"],
    form: Form,
    block: int,
    first: int = 0,
) -> Float[Tensor, "B H N V"]:
    """The outputs y_i for i from `first` on. `block` is b; `logsparse` does not use it."""
    y: Tensor = OP[OP.choose(q)](q, k, v, form, block, first)
    return y


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "blocks"


def _example(form: Form, last: bool = False) -> Example:
    def example(draw: Draw, B: int, T: int) -> Tensor:
        q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
        return combine(q, k, v, form, 2, max(T - 1, 0) if last else 0)

    return example


OP = Op(
    "combiner",
    {"reference": Backend(reference.combine), "blocks": Backend(blocks.combine, plain=True)},
    rule=choose_backend,
    examples=tuple(_example(form, last) for form in FORMS for last in (False, True)),
    price=reference.price,
)

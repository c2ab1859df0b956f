"""Several steps of the delta rule per token, as in DeltaProduct; the state decays once per token, before the steps.

    S_{t,0} = e^{g_t} S_{t-1}
    S_{t,j} = S_{t,j-1} + β_{t,j} k_{t,j}ᵀ (v_{t,j} - k_{t,j} S_{t,j-1})        j = 1 … n
    S_t = S_{t,n},     y_t = q_t S_t                                            per head; g ≤ 0, or no g

So S is multiplied by a product of n matrices I - β kᵀk, which are the identity plus rank 1; with β = 2 and keys of
length 1 they are reflections. `micro_steps` computes it as the delta rule over n T tokens.

Source: Siems et al., DeltaProduct, arXiv:2502.10297, as the authors' flash-linear-attention has it.
"""

import torch
from jaxtyping import Float
from torch import Tensor, promote_types
from torch.nn.functional import pad

from seqloom.core.shapes import Lengths
from seqloom.ops.checked import check_shapes
from seqloom.ops.delta_rule import delta
from seqloom.ops.delta_rule.delta_steps import reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Example, Op
from seqloom.ops.past.pack import within


@check_shapes("delta_steps")
def delta_steps(
    q: Float[Tensor, "B H T K"],
    k: Float[Tensor, "B H T N K"],
    v: Float[Tensor, "B H T N V"],
    strength: Float[Tensor, "B H T N"],
    *,
    log_decay: Float[Tensor, "B H T"] | None = None,
    state: Float[Tensor, "B H K V"] | None = None,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B H T V"], Float[Tensor, "B H K V"]]:
    """The outputs y (B, H, T, V), in the dtype of v, and the state S (B, H, K, V) after the last token.

    `strength` is β, `log_decay` g, nowhere above 0 (which is not checked). `state` is S before the first token, None
    for zeros. Sums are in float32 or better, so the state is too. With `lengths` (B,) a row holds so many tokens, then
    padding, and its state is that after them. Raises ValueError where shapes do not agree.

    Backends: `reference` step by step; `micro_steps`, by whichever backend of the delta rule is chosen.
    """
    (B, H, T, K), V = q.shape, v.shape[4]
    dtype = v.dtype
    wide_dtype = promote_types(dtype, promote_types(q.dtype, torch.float32))
    q, k, v, strength = (x.to(wide_dtype) for x in (q, k, v, strength))
    g, S = (None if x is None else x.to(wide_dtype) for x in (log_decay, state))
    if lengths is not None:  # in padding nothing is written or erased, and nothing decays
        real = within(lengths, T)[:, None, :, None]
        q, strength = (torch.where(real, x, 0.0) for x in (q, strength))
        k, v = (torch.where(real[..., None], x, 0.0) for x in (k, v))
        g = None if g is None else torch.where(real[..., 0], g, 0.0)
    if 0 in (T, V):
        new_state = v.new_zeros(B, H, K, V) if S is None else S.clone()
        return v.new_zeros(B, H, T, V, dtype=dtype), new_state
    y, new_state = OP[OP.choose(q)](q, k, v, strength, g, S)
    return y.to(dtype), new_state


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "micro_steps"


def micro_steps(
    q: Tensor, k: Tensor, v: Tensor, strength: Tensor, g: Tensor | None, state: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The backend `micro_steps`: the n steps of a token as n tokens of the delta rule; T is at least 1.

    Shapes are those of `delta_steps`. The state decays at the first step, and the output is that of the last.
    """
    n = k.shape[3]
    write, erase = strength[..., None] * k, k
    if g is not None:  # `delta` reads with `erase` before the state decays
        erase = torch.cat([g.exp()[..., None, None] * k[:, :, :, :1], k[:, :, :, 1:]], 3)
        g = pad(g[..., None], (0, n - 1)).flatten(2)
    q = pad(q[:, :, :, None], (0, 0, n - 1, 0))
    q, write, v, erase = (x.flatten(2, 3) for x in (q, write, v, erase))
    y, new_state = delta(q, k=write, v=v, erase=erase, log_decay=g, state=state)
    return y[:, :, n - 1 :: n], new_state


def _example(steps: int, decays: bool) -> Example:
    def example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
        K = CHANNELS // 4
        q, strength = draw(B, 4, T, K), draw(B, 4, T, steps).sigmoid()
        k, v = draw(B, 4, T, steps, K) / 4, draw(B, 4, T, steps, K)  # keys so short that the state stays small
        log_decay, state = (-draw(B, 4, T).square(), draw(B, 4, K, K)) if decays else (None, None)
        return delta_steps(q, k, v, strength, log_decay=log_decay, state=state)

    return example


OP = Op(
    "delta_steps",
    {"reference": Backend(reference.delta_steps), "micro_steps": Backend(micro_steps, plain=True)},
    rule=choose_backend,
    examples=(_example(2, True), _example(3, False)),
    price=reference.price,
)

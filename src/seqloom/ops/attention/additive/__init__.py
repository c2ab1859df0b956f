"""Additive attention: scores by a layer of tanh over the sum of a query and a key.

    e_ij = Σ_c w_c tanh(q_ic + k_jc),   a_ij = e^{e_ij} / Σ_{j'} e^{e_ij'},   y_i = Σ_j a_ij v_j        per head

j runs over the positions up to i, or over all. Each pair of positions takes K evaluations of tanh, which no matrix
product can replace: a head takes time T² K. Queries are computed in blocks that hold at most `NUMBERS` values of tanh.

Source: Bahdanau et al., arXiv:1409.0473, section 3.1 and Appendix A.1.2. Nothing differs.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from seqloom.ops.attention.additive import reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

NUMBERS = 1 << 22
"""values of tanh in memory at a time: 16 MB in float32"""


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
    """The outputs y. A query sees itself and the keys less than `window` tokens before it; with None, all before it.

    If not `causal`, it sees the keys after it with the same limit. Times are 0, 1, … where they are not given; a
    key with a negative time is empty. The output of a query that sees no key is 0. Differentiable twice.
    """
    if q.shape[2] == 0:
        return v.new_zeros(*q.shape[:3], v.shape[3])
    run = OP[OP.choose(q)]
    y: Tensor = run(q, k, v, w, causal, query_time, key_time, window)
    return y


def choose_backend(q: Tensor) -> str:
    """The name of the only fast backend."""
    return "blocks"


def blocks(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    w: Tensor,
    causal: bool,
    query_time: Tensor | None,
    key_time: Tensor | None,
    window: int | None,
) -> Tensor:
    """The backend `blocks`: a block of queries at a time; the backward pass recomputes the block."""
    T, N = q.shape[2], k.shape[2]
    now = torch.arange(T, device=q.device)[None] if query_time is None else query_time
    then = torch.arange(N, device=q.device)[None] if key_time is None else key_time
    rows = 1 if torch.compiler.is_exporting() else q.shape[0]  # an exported graph serves any number of rows
    block_size = max(1, NUMBERS // max(1, rows * k.shape[1] * N * k.shape[3]))
    if block_size >= T:
        return _block(q, k, v, w, causal, now, then, window)
    outputs = []
    causal_sequence = causal and query_time is None and key_time is None
    for start in range(0, T, block_size):
        stop = min(start + block_size, T)
        keys = slice(None)
        if causal_sequence:  # no query of the block sees other keys
            keys = slice(0 if window is None else max(0, start + 1 - window), stop)
        queries = slice(start, stop)
        inputs = (q[:, :, queries], k[:, :, keys], v[:, :, keys], w, causal, now[:, queries], then[:, keys], window)
        outputs.append(checkpoint(_block, *inputs, use_reentrant=False) if torch.is_grad_enabled() else _block(*inputs))
    return torch.cat(outputs, 2)


def _block(
    q: Tensor, k: Tensor, v: Tensor, w: Tensor, causal: bool, now: Tensor, then: Tensor, window: int | None
) -> Tensor:
    """The outputs of queries at times `now` (B, T), over keys at times `then` (B, N)."""
    distance = now[:, None, :, None] - then[:, None, None, :]
    visible = (then >= 0)[:, None, None, :].expand_as(distance)
    if causal:
        visible = visible & (distance >= 0)
    if window is not None:
        visible = visible & (distance.abs() < window)
    scores = (torch.tanh(q[:, :, :, None] + k[:, :, None]) @ w[:, None, :, None])[..., 0]  # (B, H, T, N)
    no_keys = ~visible.any(-1, keepdim=True)
    a = scores.masked_fill(~visible, -math.inf).masked_fill(no_keys, 0.0).softmax(-1)
    return torch.where(no_keys, 0.0, a @ v)


def _causal(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return additive(q, k, v, draw(4, CHANNELS // 4), window=4)


def _bidirectional(draw: Draw, B: int, T: int) -> Tensor:
    q, k, v = (draw(B, 4, T, CHANNELS // 4) for _ in range(3))
    return additive(q, k, v, draw(4, CHANNELS // 4), causal=False)


OP = Op(
    "additive",
    {"reference": Backend(reference.additive), "blocks": Backend(blocks, plain=True)},
    rule=choose_backend,
    examples=(_causal, _bidirectional),
    price=reference.price,
)

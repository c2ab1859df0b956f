"""The cell of the sLSTM over a sequence: an exponential input gate, stabilized by a running maximum.

    ĩ, f̃, z̃, õ = a_t + h_{t-1} W + b                        W block-diagonal, a block for each head
    m_t = max(log σ(f̃) + m_{t-1}, ĩ),   i = e^{ĩ - m_t},   f = e^{log σ(f̃) + m_{t-1} - m_t}           m_0 = -∞
    c_t = f c_{t-1} + i tanh(z̃),   n_t = f n_{t-1} + i,   h_t = σ(õ) c_t / n_t

n is at least 1. In gradients m is a constant, since h does not depend on it.

Source: Beck et al., xLSTM, arXiv:2405.04517, Eq. 8-17. What differs: f is always σ, where the paper also allows exp.
"""

from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.autocast import without_autocast
from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.checked import check_shapes
from seqloom.ops.linear_decay.exponential_gate import NONE
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.recurrence.slstm import looped, native, reference

States: TypeAlias = tuple[Float[Tensor, "B N"], Float[Tensor, "B N"], Float[Tensor, "B N"], Float[Tensor, "B N"]]
"""h, c, n and m, N = H K"""


@check_shapes("slstm", a="B T H 4*K", state="B H*K")
def slstm(
    a: Float[Tensor, "B T H G"],
    w: Float[Tensor, "H K 4*K"],
    bias: Float[Tensor, "H 4*K"],
    state: States | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, States]:
    """The outputs h (B, T, N), in the dtype of a, and the state after the last token; G = 4K, for i, f, z, o.

    `state` is the state before the first token, None for h = c = n = 0. With `lengths` (B,) a row has that many tokens,
    then padding; its state is the one after its tokens. Computed in float32 or better. Differentiable twice. Raises
    ValueError where shapes do not agree.
    """
    (B, T, H, _), K = a.shape, w.shape[1]
    kind, exact = a.dtype, torch.promote_types(a.dtype, torch.float32)
    a, w, bias = a.to(exact), w.to(exact), bias.to(exact)
    if state is None:
        state = a.new_zeros(B, H * K), a.new_zeros(B, H * K), a.new_zeros(B, H * K), a.new_full((B, H * K), NONE)
    h, c, n, m = (tensor.to(exact) for tensor in state)
    if a.numel() == 0:
        return a.new_zeros(B, T, H * K, dtype=kind), (h.clone(), c.clone(), n.clone(), m.clone())
    with without_autocast(a.device):
        y, new_state = OP[OP.choose(a)](a, w, bias, (h, c, n, m), lengths)
    return y.to(kind), new_state


def choose_backend(a: Tensor) -> str:
    """The faster backend; in a graph without C it is the reference, whose loop a compiler unrolls."""
    if a.device.type == "cpu" and not torch.compiler.is_exporting() and native.KERNEL.available():
        return "native"
    return "reference" if capturing() or a.shape[1] == 1 else "looped"


def _example_inputs(draw: Draw) -> tuple[Tensor, Tensor]:
    K = CHANNELS // 4
    return draw(4, K, 4 * K) / 4, draw(4, 4 * K)


def _state(draw: Draw, B: int) -> States:
    h, c, n, m = (draw(B, CHANNELS) for _ in range(4))
    return h, c, 1 + n.square(), m


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, ...]:
    y, (h, c, n, m) = slstm(draw(B, T, 4, CHANNELS), *_example_inputs(draw), _state(draw, B))
    return y, h, c, n, m


OP = Op(
    "slstm",
    {
        "reference": Backend(reference.read),
        "looped": Backend(looped.read),
        "native": Backend(native.read, native.KERNEL.unavailable, lambda a: a.device.type == "cpu"),
    },
    rule=choose_backend,
    examples=(_example,),
    price=reference.price,
)

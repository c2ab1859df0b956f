"""The decay a and the input b of a gated recurrence, variance-preserving: h_t = a_t h_{t-1} + b_t.

    [r i] = σ(u W + bias)                    W block-diagonal, (H, N, 2N): of each block N numbers r, then N numbers i
    log a = -c r ∘ softplus(Λ)
    b = √(1 - a²) ∘ (i ∘ u)                  at the first token of a text 1 in place of the root

`scans` computes the recurrence. 1 - a² is computed as -expm1(2 log a); the derivative of the root is bounded by 1000.

Source: De et al., Griffin, arXiv:2402.19427, section 2.4, and the authors' recurrentgemma, whose Λ is minus the paper's
and which bounds the derivative.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops.checked import check_shapes
from seqloom.ops.fused.gated_decay import native, reference
from seqloom.ops.op import CHANNELS, Backend, Draw, Op


@check_shapes("gated_decay", u="B T H*N", rate="H*N")
def gate_decay(
    u: Stream,
    weight: Float[Tensor, "H N 2*N"],
    bias: Float[Tensor, "H 2*N"],
    rate: Float[Tensor, " D"],
    fresh: Bool[Tensor, " B"] | bool,
) -> tuple[Stream, Stream]:
    """a and b (B, T, D) of u (B, T, D), in float32 or better; Λ is `rate`.

    `fresh` is whether the first token of each row is the first of its text. Differentiable twice. Backends:
    `reference`, and `native`, on a CPU, in C except for the product u W.
    """
    wide_dtype = torch.promote_types(u.dtype, torch.float32)
    if u.numel() == 0:
        return u.to(wide_dtype, copy=True), u.to(wide_dtype, copy=True)
    a, b = OP[OP.choose(u, weight, bias)](u, weight, bias, rate.to(wide_dtype), fresh)
    return a, b


def choose_backend(u: Tensor, *weights: Tensor) -> str:
    """The fastest backend. An exported graph must run where there is no native code."""
    native_is_able = (
        u.shape[1] > 1 and supports(u, *weights) and not torch.compiler.is_exporting() and native.KERNEL.available()
    )
    return "native" if native_is_able else "reference"


def supports(u: Tensor, *weights: Tensor) -> bool:
    """Whether the C code can run: on a CPU, all in float32 or all in float64, without autocast."""
    same_dtype = u.dtype in (torch.float32, torch.float64) and all(weight.dtype == u.dtype for weight in weights)
    return same_dtype and u.device.type == "cpu" and not torch.is_autocast_enabled("cpu")


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    N = CHANNELS // 4
    return gate_decay(draw(B, T, CHANNELS), draw(4, N, 2 * N), draw(4, 2 * N), draw(CHANNELS), True)


def _later(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    fresh = torch.arange(B) % 2 == 0
    return gate_decay(
        draw(B, T, CHANNELS), draw(1, CHANNELS, 2 * CHANNELS), draw(1, 2 * CHANNELS), draw(CHANNELS), fresh
    )


OP = Op(
    "gated_decay",
    {
        "reference": Backend(reference.gate_decay),
        "native": Backend(native.gate_decay, native.KERNEL.unavailable, supports),
    },
    rule=choose_backend,
    examples=(_example, _later),
    price=reference.price,
)

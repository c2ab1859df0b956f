"""A recurrence without a matrix: at each token every channel is multiplied by a factor of its own, and a term is added.

    h_t = a_t ∘ h_{t-1} + b_t,   h_0 = `state`           a_t = a, the same at every token, or one for each

Numbers are real, or all complex if a or b is; with |a| ≤ 1 the factors do not make h grow. No backend divides by a
product of many a, which would underflow: any length is as exact as the loop.

Source: Blelloch, Prefix Sums and Their Applications, 1990, section 1.4; Smith et al., S5, arXiv:2208.04933, appendix H.
Nothing differs.
"""

import torch
from jaxtyping import Inexact
from torch import Tensor

from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths
from seqloom.ops import gpu as device
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.scan import gpu, native, portable, recurrence, reference


@check_shapes("scan")
def scan(
    a: Inexact[Tensor, " N"] | Inexact[Tensor, "B T N"],
    b: Inexact[Tensor, "B T N"],
    state: Inexact[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Inexact[Tensor, "B T N"], Inexact[Tensor, "B N"]]:
    """Every h_t (B, T, N), and the state after the last token (B, N); no `state` means 0.

    With `lengths` (B,) a row has that many tokens, then padding, which is ignored; h there is finite and arbitrary. If
    a or b is complex, the other is converted and the results are complex. Computed in float32 or complex64 at least,
    which is also the dtype of the state. All backends are differentiable in every argument, any number of times. Raises
    ValueError where shapes do not agree, or for a complex state with real a and b.
    """
    kind = torch.promote_types(a.dtype, b.dtype)
    wide = torch.promote_types(kind, torch.float32)
    if state is not None and state.is_complex() and not wide.is_complex:
        raise ValueError("the state is complex, a and b are real: make one of them complex")
    initial = b.new_zeros(len(b), b.shape[2], dtype=wide) if state is None else state.to(wide)
    if b.numel() == 0:
        return b.to(kind, copy=True), initial.clone()
    name, a, b = OP.choose(b), a.to(wide), b.to(wide)
    if lengths is not None:
        real = within(lengths, b.shape[1])
        a, b = (x if x.ndim == 1 else torch.where(real[:, :, None], x, 0.0) for x in (a, b))
    h = OP[name](a, b, None if state is None and name == "reference" else initial)
    if lengths is None:
        return h.to(kind), h[:, -1].clone()  # a view would keep all of h in memory
    last = h[torch.arange(len(h), device=h.device), (lengths - 1).clamp(0, b.shape[1] - 1)]
    return h.to(kind), torch.where((lengths > 0)[:, None], last, initial)


def choose_backend(b: Tensor) -> str:
    """The fastest backend for these numbers: measured on one CPU core.

    Native code is the fastest for more than one token, but an exported graph must run without it.
    """
    cpu = b.device.type == "cpu"
    if b.shape[1] == 1:
        return "reference"
    if device.best(b.device):
        return "triton"
    if cpu and not torch.compiler.is_exporting() and native.KERNEL.available():
        return "native"
    return "blocked" if cpu and not capturing() else "doubling"


def _example(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    return scan(draw(B, T, CHANNELS).tanh(), draw(B, T, CHANNELS), draw(B, CHANNELS))


def _complex(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    a = torch.polar(draw(CHANNELS).sigmoid(), draw(CHANNELS))
    return scan(a, torch.complex(draw(B, T, CHANNELS), draw(B, T, CHANNELS)))


OP = Op(
    "scans",
    {
        "reference": Backend(reference.scan),
        "blocked": Backend(recurrence.differentiable(portable.scan_blocks)),
        "doubling": Backend(recurrence.differentiable(portable.doubling)),
        "native": Backend(native.forward, native.KERNEL.unavailable, lambda b: b.device.type == "cpu"),
        "triton": Backend(gpu.forward, device.unavailable, lambda b: device.supports(b.device)),
    },
    rule=choose_backend,
    examples=(_example, _complex),
    price=reference.price,
)

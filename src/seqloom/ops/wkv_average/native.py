"""The walk of `averages` in C (wkv.c): token by token, many channels at once, threads over rows and channels.

They are two operators of torch, which a compiled or exported model calls unchanged. Results do not depend on the number
of threads.
"""

from pathlib import Path

from torch import Tensor

from seqloom.ops import native
from seqloom.ops.kernel import Kernel
from seqloom.ops.wkv_average import averages

READS = "k(B T D) v(B T D) w(D) u(D)"
KERNEL = Kernel("wkv_average", Path(__file__).with_name("wkv.c"))
OP, SOURCE = KERNEL.op, KERNEL.source
FORWARD = KERNEL.function(
    "forward", "threads B T D", f"{READS} mean(B D) log(B D)", makes="y(B T D) means(B T+1 D) logs(B T+1 D)"
)
BACKWARD = KERNEL.function(
    "backward",
    "threads B T D",
    f"{READS} means(B T+1 D) logs(B T+1 D) dy(B T D) dmeans?(B T+1 D) dlogs?(B T+1 D)",
    makes="dk(B T D) dv(B T D) dw(B D, float64) du(B D, float64) M(B D) N(B D)",
)


def _forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`; float32 or float64. Raises ValueError where there is no native code."""
    made: tuple[Tensor, Tensor, Tensor] = FORWARD(
        k, v, *_weights(k, w, u), mean, log, threads=native.threads(k.numel())
    )
    return made


def _backward(
    k: Tensor,
    v: Tensor,
    w: Tensor | None,
    u: Tensor | None,
    means: Tensor,
    logs: Tensor,
    dy: Tensor,
    dmeans: Tensor | None,
    dlogs: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    inputs = k, v, *_weights(k, w, u), means, logs, dy, dmeans, dlogs
    dk, dv, dw, du, M, N = BACKWARD(*inputs, threads=native.threads(k.numel()))
    return dk, dv, dw.sum(0).to(k.dtype), du.sum(0).to(k.dtype), M, N


forward = averages.operator("wkv", _forward, _backward)


def _weights(k: Tensor, w: Tensor | None, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """w and u (D,), zeros where they are None."""
    zeros = k.new_zeros(k.shape[2])
    return zeros if w is None else w, zeros if u is None else u

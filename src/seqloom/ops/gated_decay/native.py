"""The gates in C (gates.c) from their logits: one pass over memory forward and one backward, threads over tokens.

The products with W and softplus(Λ) are torch's. Results do not depend on the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.gated_decay.reference import STRONGEST, from_logits
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("gates.c")
SPAN = 64
"""tokens of a task, each with sums of its own for Λ and the biases, the same number as in the C code"""
READS = (
    Argument("logits", "H B*T 2*N"),
    Argument("bias", "H 2*N"),
    Argument("u", "B T H*N"),
    Argument("rate", "H*N"),
    Argument("fresh", "B"),
)
FORWARD = Entry(
    "gated_decay",
    SOURCE,
    "forward",
    "threads B T H N",
    *READS,
    Argument("a", "B T H*N", written=True),
    Argument("b", "B T H*N", written=True),
    least="threads T",
)
BACKWARD = Entry(
    "gated_decay",
    SOURCE,
    "backward",
    "threads B T H N",
    *READS,
    Argument("da", "B T H*N"),
    Argument("db", "B T H*N"),
    Argument("dlogits", "H B*T 2*N", written=True),
    Argument("du", "B T H*N", written=True),
    Argument("sums", "spans 3 H*N", written=True),
    least="threads T",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def gated(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor | bool) -> tuple[Tensor, Tensor]:
    """As `reference.gated`, in float32 or float64. ValueError where there is no native code."""
    fresh_rows = fresh.to(u.dtype) if isinstance(fresh, Tensor) else u.new_full((len(u),), float(fresh))
    a, b, _ = forward(u, weight, bias, -STRONGEST * softplus(rate), fresh_rows)
    return a, b


def _logits(u: Tensor, weight: Tensor) -> Tensor:
    """The logits of r and i (H, B T, 2N), without the bias."""
    H, N, _ = weight.shape
    return torch.bmm(u.reshape(-1, H, N).transpose(0, 1), weight)


def _forward(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a, b and the logits without their bias, which C adds: torch would first write it into all of them."""
    a, b, logits = u.new_empty(u.shape), u.new_empty(u.shape), _logits(u, weight)
    FORWARD(logits, bias, u, rate, fresh, a, b, threads=native.threads(u.numel()), N=weight.shape[1])
    return a, b, logits


def _backward(
    u: Tensor,
    weight: Tensor,
    bias: Tensor,
    rate: Tensor,
    fresh: Tensor,
    logits: Tensor,
    da: Tensor,
    db: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    (B, T, D), (H, N, _) = u.shape, weight.shape
    dlogits, du, sums = logits.new_empty(logits.shape), u.new_empty(u.shape), u.new_empty(-(-B * T // SPAN), 3, D)
    db = torch.zeros_like(u) if db is None else db
    threads = native.threads(u.numel())
    BACKWARD(logits, bias, u, rate, fresh, da, db, dlogits, du, sums, threads=threads, N=N, spans=len(sums))
    u_rows, du_rows, dweight = u.reshape(-1, D), du.view(-1, D), torch.empty_like(weight)
    for head in range(H):  # one product of all heads would have to be transposed and added to du
        channels = slice(head * N, (head + 1) * N)
        du_rows[:, channels].addmm_(dlogits[head], weight[head].T)
        torch.mm(u_rows[:, channels].T, dlogits[head], out=dweight[head])
    drate, r_sums, i_sums = sums.sum(0, dtype=torch.float64).to(u.dtype).unbind(0)
    dbias = torch.cat([r_sums.view(H, N), i_sums.view(H, N)], 1)
    return du, dweight, dbias, drate.clone()


def _differentiable(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    """a and b by torch's operations, so that their gradients can be differentiated again."""
    return from_logits(_logits(u, weight) + bias[:, None], u, rate, fresh)


forward = paired(
    "gated_decay",
    _forward,
    _backward,
    shapes=lambda u, weight, *rest: [u.shape, u.shape, (len(weight), u.shape[0] * u.shape[1], weight.shape[2])],
    gradient_shapes=lambda u, weight, bias, rate, *rest: [tensor.shape for tensor in (u, weight, bias, rate)],
    save=lambda inputs, outputs: (*inputs, outputs[2]),
    differentiable=lambda u, weight, bias, rate, fresh, logits, *grads: differentiate(
        _differentiable, (u, weight, bias, rate, fresh), grads
    ),
    results=2,
)

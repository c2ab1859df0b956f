"""The gates in C (gates.c) from their logits: one pass over memory forward and one backward, threads over tokens.

The products with W are by the faster one of torch's matrix libraries, softplus(Λ) is torch's. Results do not depend on
the number of threads.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.ops import native
from seqloom.ops.fused.gated_decay.reference import STRONGEST, from_logits
from seqloom.ops.fused.projection import outer, project
from seqloom.ops.kernel import Kernel

SPAN = 64
"""tokens of a task, each with sums of its own for Λ and the biases, the same number as in the C code"""
READS = "logits(H B*T 2*N) bias(H 2*N) u(B T H*N) rate(H*N) fresh(B)"
KERNEL = Kernel("gated_decay", Path(__file__).with_name("gates.c"), least="threads T")
FORWARD = KERNEL.function("forward", "threads B T H N", READS, makes="a(B T H*N) b(B T H*N)")
BACKWARD = KERNEL.function(
    "backward",
    "threads B T H N",
    f"{READS} da(B T H*N) db(B T H*N)",
    makes="dlogits(H B*T 2*N) du(B T H*N) sums(spans 3 H*N)",
)


def gate_decay(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor | bool) -> tuple[Tensor, Tensor]:
    """As `reference.gate_decay`, in float32 or float64. ValueError where there is no native code."""
    fresh_rows = fresh.to(u.dtype) if isinstance(fresh, Tensor) else u.new_full((len(u),), float(fresh))
    a, b, _ = forward(u, weight, bias, -STRONGEST * softplus(rate), fresh_rows)
    return a, b


def _logits(u: Tensor, weight: Tensor) -> Tensor:
    """The logits of r and i (H, B T, 2N), without the bias."""
    blocks = u.flatten(0, 1).split(weight.shape[1], 1)
    return torch.stack([project(block, matrix.T) for block, matrix in zip(blocks, weight, strict=True)])


def _forward(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a, b and the logits without their bias, which C adds: torch would first write it into all of them."""
    logits = _logits(u, weight)
    a, b = FORWARD(logits, bias, u, rate, fresh, threads=native.threads(u.numel()), N=weight.shape[1])
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
    db = torch.zeros_like(u) if db is None else db
    sizes = {"threads": native.threads(u.numel()), "N": N, "spans": -(-B * T // SPAN)}
    dlogits, du, sums = BACKWARD(logits, bias, u, rate, fresh, da, db, **sizes)
    u_rows, du_rows, dweight = u.reshape(-1, D), du.view(-1, D), torch.empty_like(weight)
    for head in range(H):  # one product of all heads would have to be transposed and added to du
        channels = slice(head * N, (head + 1) * N)
        du_rows[:, channels] += project(dlogits[head], weight[head])
        dweight[head] = outer(u_rows[:, channels], dlogits[head])
    drate, r_sums, i_sums = sums.sum(0, dtype=torch.float64).to(u.dtype).unbind(0)
    dbias = torch.cat([r_sums.view(H, N), i_sums.view(H, N)], 1)
    return du, dweight, dbias, drate.clone()


def _compute(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    return from_logits(_logits(u, weight) + bias[:, None], u, rate, fresh)


forward = KERNEL.operator("gated_decay", _forward, _backward, _compute, keep=(2,), results=2)

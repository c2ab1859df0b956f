"""The gates in C (gates.c): what follows from their logits in one pass over memory each way, threads over tokens.

The product with the blocks and softplus(Λ) are torch's. The numbers do not depend on how many threads there are.
"""

from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import differentiate, paired
from seqloom.ops.gated_decay.reference import STRONGEST, opened
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("gates.c")
SPAN = 64
"""tokens of a task, each with sums of its own for Λ, as the C has it"""
READS = (
    Argument("logits", "H B*T 2*N"),
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
    Argument("sums", "spans H*N", written=True),
    least="threads T",
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


def gated(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor | bool) -> tuple[Tensor, Tensor]:
    """As `reference.gated`, in float32 or float64. ValueError where there is no native code."""
    H, N, _ = weight.shape
    logits = torch.baddbmm(bias[:, None], u.reshape(-1, H, N).transpose(0, 1), weight)
    first = fresh.to(u.dtype) if isinstance(fresh, Tensor) else u.new_full((len(u),), float(fresh))
    a, b = forward(logits, u, -STRONGEST * softplus(rate), first)
    return a, b


def _forward(logits: Tensor, u: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    a, b = u.new_empty(u.shape), u.new_empty(u.shape)
    FORWARD(logits, u, rate, fresh, a, b, threads=native.threads(u.numel()), N=logits.shape[2] // 2)
    return a, b


def _backward(
    logits: Tensor, u: Tensor, rate: Tensor, fresh: Tensor, da: Tensor, db: Tensor | None
) -> tuple[Tensor, Tensor, Tensor]:
    (B, T, D), N = u.shape, logits.shape[2] // 2
    dlogits, du, sums = logits.new_empty(logits.shape), u.new_empty(u.shape), u.new_empty(-(-B * T // SPAN), D)
    to_b = torch.zeros_like(u) if db is None else db
    threads = native.threads(u.numel())
    BACKWARD(logits, u, rate, fresh, da, to_b, dlogits, du, sums, threads=threads, N=N, spans=len(sums))
    return dlogits, du, sums.sum(0, dtype=torch.float64).to(rate.dtype)


forward = paired(
    "gated_decay",
    _forward,
    _backward,
    shapes=lambda logits, u, *rest: [u.shape, u.shape],
    gradient_shapes=lambda logits, u, rate, *rest: [logits.shape, u.shape, rate.shape],
    save=lambda inputs, outputs: inputs,
    again=lambda logits, u, rate, fresh, *given: differentiate(opened, (logits, u, rate, fresh), given),
    results=2,
)

"""The gates in C (gates.c): what follows from their logits in one pass over memory each way, threads over tokens.

The products with the blocks and softplus(Λ) are torch's. The numbers do not depend on how many threads there are.
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
"""tokens of a task, each with sums of its own for Λ and the biases, as the C has it"""
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
    """Whether there is native code on this machine; the first to ask has it compiled."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    return native.lacking("native", SOURCE)


def gated(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor | bool) -> tuple[Tensor, Tensor]:
    """As `reference.gated`, in float32 or float64. ValueError where there is no native code."""
    first = fresh.to(u.dtype) if isinstance(fresh, Tensor) else u.new_full((len(u),), float(fresh))
    a, b, _ = forward(u, weight, bias, -STRONGEST * softplus(rate), first)
    return a, b


def _logits(u: Tensor, weight: Tensor) -> Tensor:
    """(H, B T, 2N), without the bias."""
    H, N, _ = weight.shape
    return torch.bmm(u.reshape(-1, H, N).transpose(0, 1), weight)


def _forward(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """a, b and the logits without their bias, which torch would spread over all of them first."""
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
    to_b = torch.zeros_like(u) if db is None else db
    threads = native.threads(u.numel())
    BACKWARD(logits, bias, u, rate, fresh, da, to_b, dlogits, du, sums, threads=threads, N=N, spans=len(sums))
    rows, reached, dweight = u.reshape(-1, D), du.view(-1, D), torch.empty_like(weight)
    for head in range(H):  # one product of all would put what reaches u elsewhere, to be turned and added
        channels = slice(head * N, (head + 1) * N)
        reached[:, channels].addmm_(dlogits[head], weight[head].T)
        torch.mm(rows[:, channels].T, dlogits[head], out=dweight[head])
    drate, *of_logits = sums.sum(0, dtype=torch.float64).to(u.dtype).unbind(0)
    dbias = torch.cat([each.view(H, N) for each in of_logits], 1)
    return du, dweight, dbias, drate.clone()


def _computed(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    return opened(_logits(u, weight) + bias[:, None], u, rate, fresh)


forward = paired(
    "gated_decay",
    _forward,
    _backward,
    shapes=lambda u, weight, *rest: [u.shape, u.shape, (len(weight), u.shape[0] * u.shape[1], weight.shape[2])],
    gradient_shapes=lambda *of: [tensor.shape for tensor in of[:4]],
    save=lambda inputs, outputs: (*inputs, outputs[2]),
    differentiable=lambda u, weight, bias, rate, fresh, logits, *grads: differentiate(
        _computed, (u, weight, bias, rate, fresh), grads
    ),
    results=2,
)

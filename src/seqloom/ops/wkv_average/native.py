"""The walk of `averages` in C (wkv.c): token by token, many channels at once, threads over rows and channels.

They are two operators of torch, which a compiled or exported model calls unchanged. Results do not depend on the number
of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.native import Argument, Entry
from seqloom.ops.wkv_average import averages

SOURCE = Path(__file__).with_name("wkv.c")
"""the C source of both operators"""
OP = "wkv_average"
READS = (
    Argument("k", "B T D"),
    Argument("v", "B T D"),
    Argument("w", "D"),
    Argument("u", "D"),
)
FORWARD = Entry(
    OP,
    SOURCE,
    "forward",
    "threads B T D",
    *READS,
    Argument("mean", "B D"),
    Argument("log", "B D"),
    Argument("y", "B T D", written=True),
    Argument("means", "B T+1 D", written=True),
    Argument("logs", "B T+1 D", written=True),
)
BACKWARD = Entry(
    OP,
    SOURCE,
    "backward",
    "threads B T D",
    *READS,
    Argument("means", "B T+1 D"),
    Argument("logs", "B T+1 D"),
    Argument("dy", "B T D"),
    Argument("dmeans", "B T+1 D", optional=True),
    Argument("dlogs", "B T+1 D", optional=True),
    Argument("dk", "B T D", written=True),
    Argument("dv", "B T D", written=True),
    Argument("dw", "B D", torch.float64, written=True),
    Argument("du", "B D", torch.float64, written=True),
    Argument("M", "B D", written=True),
    Argument("N", "B D", written=True),
)
TOKEN = Entry(
    "wkv_token",
    SOURCE,
    "token",
    "B D",
    Argument("k", "B D"),
    Argument("v", "B D"),
    Argument("log_rate", "D", optional=True),
    Argument("bonus", "D", optional=True),
    Argument("state", "B 3 D", written=True),
    Argument("y", "B D", written=True),
    Argument("new_state", "B 3 D", written=True, optional=True),
)


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def token(
    k: Tensor, v: Tensor, log_rate: Tensor | None, bonus: Tensor | None, state: Tensor, new_state: Tensor | None
) -> Tensor:
    """One token (B, D) without gradients: returns y, and writes the new state into `new_state`, or else into `state`.

    All tensors have one dtype, float32 or float64. ValueError where one does not fit, or a state is not contiguous.
    """
    y = k.new_empty(k.shape)
    TOKEN(k, v, log_rate, bonus, state, y, new_state)
    return y


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def _forward(
    k: Tensor, v: Tensor, w: Tensor | None, u: Tensor | None, mean: Tensor, log: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `averages.Walk`; float32 or float64. Raises ValueError where there is no native code."""
    B, T, D = k.shape
    y, means, logs = k.new_empty(B, T, D), k.new_empty(B, T + 1, D), k.new_empty(B, T + 1, D)
    FORWARD(k, v, *_weights(k, w, u), mean, log, y, means, logs, threads=native.threads(k.numel()))
    return y, means, logs


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
    (B, _, D), dk, dv = k.shape, k.new_empty(k.shape), v.new_empty(v.shape)
    dw, du = (k.new_empty(B, D, dtype=torch.float64) for _ in range(2))
    M, N = k.new_empty(B, D), k.new_empty(B, D)
    inputs = (k, v, *_weights(k, w, u), means, logs, dy, dmeans, dlogs)
    BACKWARD(*inputs, dk, dv, dw, du, M, N, threads=native.threads(k.numel()))
    return dk, dv, dw.sum(0).to(k.dtype), du.sum(0).to(k.dtype), M, N


forward = averages.operator("wkv", _forward, _backward)


def _weights(k: Tensor, w: Tensor | None, u: Tensor | None) -> tuple[Tensor, Tensor]:
    """w and u (D,), zeros where they are None."""
    zeros = k.new_zeros(k.shape[2])
    return zeros if w is None else w, zeros if u is None else u

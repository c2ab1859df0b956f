"""Whether flash-linear-attention's Triton kernels can run, and what all calls of them share.

It is an extra (`pip install 'seqloom[fla]'`). Its kernels multiply in the dtype of q: bfloat16 or float16, as under
autocast; float32 inputs are multiplied in TF32, and several kernels refuse them. They have a first derivative only.
"""

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from seqloom.core.graphs import capturing, constant
from seqloom.ops import gpu

NARROW = (torch.bfloat16, torch.float16)
"""the dtypes that all its kernels support"""
WIDEST = 256
"""the most channels of a key that all its kernels support"""


@constant
def why() -> str:
    """The reason why its kernels cannot run here, in a few words; "" if they can."""
    return _why()


@cache
def _why() -> str:
    if find_spec("fla") is None:
        return "flash-linear-attention is not installed: pip install 'seqloom[fla]'"
    return gpu.why() or ("Triton's interpreter does not run fla" if gpu.INTERPRETED else "")


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    reason = why()
    return {"fla": reason} if reason else {}


def able(q: Tensor) -> bool:
    """Whether its kernels can run on queries (…, K) on a GPU. They need an even K."""
    K = q.shape[-1]
    return q.device.type == "cuda" and q.dtype in NARROW and K <= WIDEST and K % 2 == 0 and not why()


def best(q: Tensor) -> bool:
    """Whether its kernels are the default for these queries; never in a captured graph, which they would break."""
    return able(q) and not capturing()


def heads_last(x: Tensor) -> Tensor:
    """(B, H, T, …) as (B, T, H, …), the layout of its kernels, or back."""
    return x.transpose(1, 2)


def once(y: Tensor) -> Tensor:
    """An output; a second derivative through it raises RuntimeError, since fla would leave out its part."""
    output: Tensor = _Once.apply(y)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return output


class _Once(torch.autograd.Function):
    """The identity, whose derivative cannot be differentiated."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, dx: Tensor) -> Tensor:
        if torch.is_grad_enabled():
            raise RuntimeError("fla's kernels have no second derivative: force backend 'chunked' to get one")
        return dx

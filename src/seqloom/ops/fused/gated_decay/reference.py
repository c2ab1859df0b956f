"""The gates as they are written, over all tokens at once, and their price, counted from them.

Exported graphs contain them in this form. Their matrix W is not part of the price: it is a layer of the mixer with a
price of its own.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from seqloom.core.cost import Cost, Step, sigmoid
from seqloom.core.graphs import is_transformed

STRONGEST = 8.0
"""c"""
STEEPEST = 1000.0
"""the largest derivative of the root"""


def gate_decay(u: Tensor, weight: Tensor, bias: Tensor, rate: Tensor, fresh: Tensor | bool) -> tuple[Tensor, Tensor]:
    """See `gate_decay` of the package; softplus(Λ) is computed again for each token, as in a step."""
    H, N, _ = weight.shape
    blocks = u.reshape(-1, H, N)
    logits = torch.baddbmm(bias[:, None], blocks.transpose(0, 1), weight).transpose(0, 1).to(rate.dtype)
    r, i = torch.sigmoid(logits).unflatten(-1, (2, N)).unbind(-2)  # (B T, H, N)
    log_a = -STRONGEST * softplus(rate.view(H, N).expand_as(r)) * r
    root = with_1_at_start(bounded_root(-torch.expm1(2 * log_a)).reshape(u.shape), fresh)
    return log_a.exp().reshape(u.shape), root * (i * blocks).reshape(u.shape)


def from_logits(logits: Tensor, u: Tensor, rate: Tensor, fresh: Tensor) -> tuple[Tensor, Tensor]:
    """a and b from logits (H, B T, 2N), with log a = rate r; `fresh` (B,) is not 0 where a row begins a text."""
    r, i = (gate.transpose(0, 1).reshape(u.shape) for gate in torch.sigmoid(logits).chunk(2, -1))
    log_a = rate * r
    return log_a.exp(), with_1_at_start(bounded_root(-torch.expm1(2 * log_a)), fresh != 0) * (i * u)


def with_1_at_start(root: Tensor, fresh: Tensor | bool) -> Tensor:
    """The root (B, T, D) with 1 at the first token of rows that are `fresh`."""
    if fresh is False:
        return root
    ones = torch.ones_like(root[:, :1])
    first_root = ones if fresh is True else torch.where(fresh[:, None, None], ones, root[:, :1])
    return torch.cat([first_root, root[:, 1:]], 1)


def bounded_root(x: Tensor) -> Tensor:
    """√x, with a derivative of at most `STEEPEST`."""
    if is_transformed():  # which do not follow the function below
        is_steep = 4 * STEEPEST**2 * x < 1
        fixed = x.detach()
        return torch.where(is_steep, fixed.sqrt() + STEEPEST * (x - fixed), torch.where(is_steep, 1.0, x).sqrt())
    y: Tensor = _Root.apply(x)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return y


class _Root(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return torch.sqrt(x)

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return dy * torch.rsqrt(4 * x).clamp(max=STEEPEST)


def price(numbers: int) -> Cost:
    """The price for `numbers` elements of u: two sigmoids, softplus(Λ), log a, a, 1 - a², its root, two products."""
    path: tuple[Step, ...] = (
        "multiplication",
        "multiplication",
        "exponentiation",
        "addition",
        "other",
        "multiplication",
    )
    decay_and_input = Cost(mul=5 * numbers, add=2 * numbers, exp=3 * numbers, other=3 * numbers, path=path)
    return sigmoid(2 * numbers) + decay_and_input

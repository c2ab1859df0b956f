"""What is read from sums whose last channel is their normaliser, with gradients in few passes over memory.

    y = s / z,   ds = dy / z,   dz = -Σ ds y        z one number for all channels of s

torch's own gradients fill a whole tensor with zeros for each part, and divide twice more.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


def parts(sums: Float[Tensor, "*rows N"]) -> tuple[Float[Tensor, "*rows V"], Float[Tensor, "*rows 1"]]:
    """The sums and their normaliser, views of the two, N = V + 1."""
    s, z = _Parts.apply(sums)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return s, z


def quotient(s: Float[Tensor, "*rows V"], z: Float[Tensor, "*rows 1"]) -> Float[Tensor, "*rows V"]:
    """s / z."""
    y: Tensor = _Quotient.apply(s, z)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return y


class _Parts(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, sums: Tensor) -> tuple[Tensor, Tensor]:
        return sums[..., :-1], sums[..., -1:]

    @staticmethod
    def backward(ctx: Any, ds: Tensor, dz: Tensor) -> Tensor:
        return torch.cat([ds, dz], -1)


class _Quotient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, s: Tensor, z: Tensor) -> Tensor:
        y = s / z
        ctx.save_for_backward(y, z)
        return y

    @staticmethod
    def backward(ctx: Any, dy: Tensor) -> tuple[Tensor, Tensor]:
        y, z = ctx.saved_tensors
        ds = dy / z
        return ds, -(ds * y).sum(-1, keepdim=True)

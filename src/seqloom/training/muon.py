"""Muon where torch's does not serve: with its learning rate on the device, or on matrices that are divided.

    m ← μ m + (1 - μ) g,   p ← (1 - ηλ) p - 0.2 η √max(A, B) · O((1 - μ) g + μ m)       p (A, B); O: `orthogonal`

torch's reads a rate on the device, which a captured step cannot, and orthogonalizes each part of a divided matrix by
itself. Here the direction is gathered, and matrix n of a divided model is orthogonalized by rank n mod R alone.

Source: as `seqloom.training.optimizers`; the same equation, in the settings and on the memory of torch's optimizer.
"""

import math

import torch
import torch.distributed as dist
from jaxtyping import Float
from torch import Tensor
from torch.optim import Muon

from seqloom.core.divided import like, whole


@torch.no_grad()
def update_on_device(part: Muon, flag: Tensor | None) -> None:
    """One step of `part`, whose rates are tensors; where `flag` () is 1 it changes nothing."""
    for group in part.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            memory = part.state[parameter]
            if "momentum_buffer" not in memory:
                memory["momentum_buffer"] = torch.zeros_like(parameter.grad)
            averaged = memory["momentum_buffer"].lerp(parameter.grad, 1 - group["momentum"])
            direction = orthogonal(
                parameter.grad.lerp(averaged, group["momentum"]),
                group["ns_coefficients"],
                group["ns_steps"],
                group["eps"],
            )
            size = 0.2 * math.sqrt(max(parameter.shape)) * group["lr"]
            changed = parameter * (1 - group["lr"] * group["weight_decay"]) - size * direction.to(parameter.dtype)
            for place, value in ((memory["momentum_buffer"], averaged), (parameter, changed)):
                place.copy_(value if flag is None else torch.where(flag == 1, place, value))


@torch.no_grad()
def update_divided(part: Muon) -> None:
    """One step of `part`, whose parameters are divided among processes."""
    number = 0
    for group in part.param_groups:
        for parameter in group["params"]:
            if parameter.grad is None:
                continue
            memory = part.state[parameter]
            if "momentum_buffer" not in memory:
                memory["momentum_buffer"] = torch.zeros_like(parameter.grad)
            memory["momentum_buffer"].lerp_(parameter.grad, 1 - group["momentum"])
            direction = whole(parameter.grad.lerp(memory["momentum_buffer"], group["momentum"]))
            owner = number % dist.get_world_size()
            if dist.get_rank() == owner:
                options = (group["ns_coefficients"], group["ns_steps"], group["eps"])
                direction = orthogonal(direction, *options).to(direction.dtype).contiguous()
            dist.broadcast(direction, owner)
            size = 0.2 * math.sqrt(max(parameter.shape)) * group["lr"]
            parameter.mul_(1 - group["lr"] * group["weight_decay"]).sub_(size * like(direction, parameter))
            number += 1


def orthogonal(
    x: Float[Tensor, "A B"], coefficients: tuple[float, float, float], steps: int, eps: float
) -> Float[Tensor, "A B"]:
    """x with singular values of about 1, in bfloat16, by Newton-Schulz: X ← a X + (b G + c G²) X with G = X Xᵀ."""
    a, b, c = coefficients
    tall = x.shape[0] > x.shape[1]
    y = x.bfloat16().T if tall else x.bfloat16()
    y = y / y.norm().clamp(min=eps)
    for _ in range(steps):
        gram = y @ y.T
        y = torch.addmm(y, torch.addmm(gram, gram, gram, beta=b, alpha=c), y, beta=a)
    return y.T if tall else y

"""Damaged tensors, and unusual valid ones: other sizes, dtypes, strides, devices, or no tensor."""

import random
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Spoil = Callable[[Tensor, random.Random], Any]


def longer(x: Tensor, chance: random.Random) -> Tensor:
    """One size more than it was, or many more."""
    dim = chance.randrange(x.ndim)
    return x.repeat_interleave(torch.tensor(chance.choice([2, 17])), dim)


def shorter(x: Tensor, chance: random.Random) -> Tensor:
    dim = chance.randrange(x.ndim)
    return x.narrow(dim, 0, chance.randrange(x.shape[dim]) if x.shape[dim] else 0).contiguous()


def empty(x: Tensor, chance: random.Random) -> Tensor:
    return x.narrow(chance.randrange(x.ndim), 0, 0)


def deeper(x: Tensor, chance: random.Random) -> Tensor:
    return x.unsqueeze(chance.randrange(x.ndim + 1))


def flatter(x: Tensor, chance: random.Random) -> Tensor:
    return x.flatten() if x.ndim > 1 else x.sum()


def other_dtype(x: Tensor, chance: random.Random) -> Tensor:
    dtypes = [torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
    return x.to(chance.choice([each for each in dtypes if each != x.dtype]))


def other_device(x: Tensor, chance: random.Random) -> Tensor:
    return x.to("meta")


def no_tensor(x: Tensor, chance: random.Random) -> Any:
    return chance.choice([None, x.tolist(), x.numpy(force=True) if x.dtype != torch.bfloat16 else 1.0, "x", 3])


def sparse(x: Tensor, chance: random.Random) -> Tensor:
    return x.to_sparse()


def odd_strides(x: Tensor, chance: random.Random) -> Tensor:
    """The same numbers with gaps, the other way round, or negated only when they are read."""
    way = chance.randrange(3)
    if way == 0:
        return torch.stack([x, torch.full_like(x, 9)], -1)[..., 0]
    if way == 1 or not x.is_floating_point() or x.dtype == torch.bfloat16:
        order = list(range(x.ndim))[::-1]
        return x.permute(order).contiguous().permute(order)
    return torch.complex(torch.zeros_like(x), -x).conj().imag


WRONG: tuple[Spoil, ...] = (
    longer,
    shorter,
    empty,
    deeper,
    flatter,
    other_dtype,
    other_device,
    no_tensor,
    sparse,
)
"""of which most are errors"""

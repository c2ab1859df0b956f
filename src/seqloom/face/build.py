"""Builds a module after a plan of its size, without values."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from seqloom.core.without_values import without_values
from seqloom.models.arguments import check_room

Module = TypeVar("Module", bound=nn.Module)


def build_checked(build: Callable[[], Module]) -> Module:
    """What `build` returns; ValueError where its parameters do not fit into this machine's memory."""
    try:
        if torch.get_default_device().type == "cpu":
            with without_values(), torch.random.fork_rng(devices=[]):
                planned = list(build().parameters())
            check_room(
                sum(tensor.numel() for tensor in planned),
                max((tensor.itemsize for tensor in planned), default=0),
                "this module",
            )
        return build()
    except (MemoryError, RuntimeError, OverflowError) as error:
        raise ValueError(f"this cannot be built ({str(error).splitlines()[0]}): choose smaller sizes") from None

"""Devices by name."""

import sys
import warnings
from functools import cache

import torch


def choose_device(name: str) -> torch.device:
    """The device called `name`; `auto` is the first GPU, or else the CPU. ValueError where torch cannot use it here."""
    if name == "auto":
        return torch.device("cuda" if _has_gpu() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
        if device.type == "meta":
            raise RuntimeError("it does not compute")
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"no device {name!r} here ({str(error).splitlines()[0]}): use cpu or auto") from None
    return device


@cache
def _has_gpu() -> bool:
    """Whether torch can use a GPU; says once, in one line, why it cannot use one that is there: an old driver."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        available = torch.cuda.is_available()
    if caught and not available:
        why = str(caught[0].message).splitlines()[0].removeprefix("CUDA initialization: ")
        print(f"no GPU is used: {why[:200]}", file=sys.stderr)
    return available

"""Autocast: whether it is on, and blocks in which it is off, so that sums over many tokens are not rounded."""

from contextlib import AbstractContextManager, nullcontext

import torch


def autocasts(device: torch.device) -> bool:
    """Whether autocast is on for the device."""
    return torch.amp.is_autocast_available(device.type) and torch.is_autocast_enabled(device.type)


def without_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Turns autocast off, which would round a state, and so what it holds of all earlier tokens.

    Where it is off nothing is done, which saves a token some microseconds; an exported graph may run where it is on.
    """
    if autocasts(device) or torch.compiler.is_exporting():
        return torch.autocast(device.type, enabled=False)
    return nullcontext()

"""Checks of the arguments of public functions: TypeError for a wrong type, ValueError for a wrong value."""

import math
from typing import Any

import torch
from torch import Tensor

from seqloom.core.autocast import autocasts


def count(name: str, value: Any, least: int = 0) -> None:
    """Raises TypeError unless the value is an int (a bool is not), and ValueError where it is below `least`."""
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
        raise TypeError(f"{name} must be a whole number, not {describe_value(value)}")
    if value < least:
        raise ValueError(f"{name} must be {least} or more, not {value}")


def flag(name: str, value: Any) -> None:
    """Raises TypeError unless the value is True or False."""
    if not isinstance(value, bool | torch.SymBool):
        raise TypeError(f"{name} is True or False, not {describe_value(value)}")


def deviation(std: Any) -> None:
    """Raises TypeError unless a standard deviation is a number, and ValueError where it is negative or not finite."""
    if isinstance(std, bool) or not isinstance(std, int | float):
        raise TypeError(f"std must be a number, not {describe_value(std)}")
    if not (math.isfinite(std) and std >= 0):
        raise ValueError(f"std must be a finite number of 0 or more, not {std}")


def stream(x: Any, dim: int, ndim: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Returns x. Raises unless it is (B, T, dim), or (B, dim) for an `ndim` of 2, in the parameters' dtype and device.

    Under autocast x may have any floating dtype; float64, which autocast does not convert, is converted here.
    """
    letters = "(B, T, D)" if ndim == 3 else "(B, D)"
    if not isinstance(x, Tensor):
        raise TypeError(f"this mixer reads a tensor {letters} with D = {dim}, not {describe_value(x)}")
    if x.is_nested:  # whose sizes cannot be asked
        raise ValueError(f"this mixer reads dense tensors {letters}, not nested ones: pad the rows and give keep")
    if x.ndim != ndim or x.shape[-1] != dim:
        raise ValueError(f"this mixer reads {letters} with D = {dim}, not {tuple(x.shape)}")
    if x.layout != torch.strided:
        raise ValueError(f"this mixer reads dense tensors, not {x.layout}: convert with .to_dense()")
    if x.device != device:
        raise ValueError(f"the input is on {x.device}, this mixer on {device}: move one of them with .to()")
    if x.dtype == dtype:
        return x
    if not (x.is_floating_point() and autocasts(device)):
        raise ValueError(
            f"this mixer reads {short(dtype)}, as its parameters are, not {short(x.dtype)}: convert with .to()"
        )

    return x.to(dtype) if torch.float64 in (x.dtype, dtype) else x


def mask(keep: Any, x: Tensor) -> None:
    """Raises unless keep is a bool tensor (B, T) on the device of x (B, T, ...)."""
    shape = tuple(x.shape[:2])
    if not isinstance(keep, Tensor):
        raise TypeError(f"keep must be a bool tensor {shape}, not {describe_value(keep)}")
    if (
        keep.is_nested
        or keep.shape != shape
        or keep.dtype != torch.bool
        or keep.device != x.device
        or keep.layout != torch.strided
    ):
        raise ValueError(f"keep must be bool {shape} on {x.device}, not {describe_value(keep)}")


def describe_value(value: Any) -> str:
    """A value as errors describe it: a tensor by shape, dtype and device, a plain value with its type, else a type."""
    if isinstance(value, Tensor):
        if value.is_nested:  # it has no sizes
            return f"a nested tensor of {short(value.dtype)} on {value.device}"
        layout = "" if value.layout == torch.strided else f" {str(value.layout).removeprefix('torch.')}"
        return f"{tuple(value.shape)} {short(value.dtype)}{layout} on {value.device}"
    kind = type(value).__name__
    return f"{value!r} ({kind})" if isinstance(value, bool | int | float | str) else kind


def short(dtype: torch.dtype) -> str:
    """The name of a dtype, such as float32."""
    return str(dtype).removeprefix("torch.")

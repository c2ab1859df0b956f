"""How an op calls its C: the library or the reason why not, the C's words for number types, where a tensor lies."""

import ctypes
from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops.native.loaded import library, why

WORD = {torch.float32: "float", torch.float64: "double"}
"""what a function's name ends in, by the number type that it is for"""


def lacking(backend: str, *sources: Path) -> dict[str, str]:
    """The backend and why it is not available, if one of its sources is not."""
    reasons = [reason for reason in map(why, sources) if reason]
    return {backend: reasons[0]} if reasons else {}


def need(op: str, source: Path, backend: str = "native") -> ctypes.CDLL:
    """The library of a C source. ValueError, with the reason, where there is none."""
    found = library(source)
    if found is None:
        raise ValueError(f"the backend {backend} of {op} is not available here: {why(source)}")
    return found


def pointer(of: Tensor | None) -> ctypes.c_void_p:
    """Where a tensor's numbers begin, NULL for None. It must live on until the call is over."""
    return ctypes.c_void_p(None if of is None else of.data_ptr())

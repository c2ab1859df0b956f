"""The C functions of the package (scan.c): their signatures, and when they may be called directly.

The overhead of torch's operators exceeds the time of a token. So where nothing observes operators (no gradients, no
captured graph, no mode that counts operations), C is called directly.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("scan.c")
CHUNK, BLOCK = 32, 4
"""tokens from one saved state to the next, and vectors of channels of a task, the same numbers as in the C code"""
BYTES = 64
"""of a vector in saved states and scratch memory: the widest of any CPU's, where C has room for its own"""


def _entry(name: str, numbers: str, *arguments: Argument, least: str = "threads N") -> Entry:
    steps = "u_step delta_step b_step c_step gate_step"
    return Entry("selective_scan", SOURCE, name, f"{numbers} {steps}", *arguments, least=least, integer=ctypes.c_int64)


def _inputs(T: str) -> tuple[Argument, ...]:
    """The inputs of the scan: tensors of tokens, (B, D) or (B, T, D), weights and the state."""
    return (
        Argument("u", f"B {T} D", step="u_step"),
        Argument("delta", f"B {T} D", step="delta_step"),
        Argument("log_rate", "D N"),
        Argument("B", f"B {T} N", step="b_step"),
        Argument("C", f"B {T} N", step="c_step"),
        Argument("state", "B D N", optional=True, written=not T),
        Argument("bias", "D", optional=True),
        Argument("skip", "D", optional=True),
        Argument("gate", f"B {T} D", optional=True, step="gate_step"),
        Argument("lengths", "B", torch.long, optional=True),
    )


FORWARD = _entry(
    "forward",
    "threads B T D N",
    *_inputs("T"),
    Argument("y", "B T D", written=True),
    Argument("new_state", "B D N", written=True),
    Argument("marks", "B chunks vectors N lanes", optional=True, written=True),
    Argument("scratch", "threads room", written=True),
)
BACKWARD = _entry(
    "backward",
    "threads B T D N",
    *_inputs("T"),
    Argument("dy", "B T D"),
    Argument("marks", "B chunks vectors N lanes"),
    Argument("du", "B T D", written=True),
    Argument("ddelta", "B T D", written=True),
    Argument("dgate", "B T D", optional=True, written=True),
    Argument("db", "B T N", written=True),
    Argument("dc", "B T N", written=True),
    Argument("dstate", "B D N", written=True),
    Argument("db_parts", "blocks B T N", written=True),
    Argument("dc_parts", "blocks B T N", written=True),
    Argument("dA", "B D N", torch.float64, written=True),
    Argument("dbias", "B D", torch.float64, written=True),
    Argument("dskip", "B D", torch.float64, written=True),
    Argument("scratch", "threads room", written=True),
)
STEP = _entry(
    "step",
    "threads B 1 D N",
    *_inputs(""),
    Argument("y", "B D", written=True),
    Argument("new_state", "B D N", written=True, optional=True),
)
"""without `new_state` the state is overwritten"""


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def callable_directly(*inputs: Tensor | None) -> bool:
    """Whether C may be called directly with these inputs, of which some may be None.

    RuntimeError in forward-mode differentiation.
    """
    if inputs[0] is None or native.observed(inputs[0]):
        return False
    if forward_ad._current_level >= 0:
        raise RuntimeError("forward-mode derivatives are not implemented in C: force selective_scan='reference'")
    return not (torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs))

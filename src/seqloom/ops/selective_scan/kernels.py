"""The C functions of the package (scan.c): their signatures, and when they may be called directly.

The overhead of torch's operators exceeds the time of a token. So where nothing observes operators (no gradients, no
captured graph, no mode that counts operations), C is called directly.
"""

import ctypes
from pathlib import Path

import torch
from torch import Tensor
from torch.autograd import forward_ad

from seqloom.ops import native
from seqloom.ops.kernel import Kernel

CHUNK, BLOCK = 32, 4
"""tokens from one saved state to the next, and vectors of channels of a task, the same numbers as in the C code"""
BYTES = 64
"""of a vector in saved states and scratch memory: the widest of any CPU's, where C has room for its own"""
KERNEL = Kernel("selective_scan", Path(__file__).with_name("scan.c"), least="threads N", integer=ctypes.c_int64)
SOURCE = KERNEL.source
READS = (
    "u(B T D, u_step) delta(B T D, delta_step) log_rate(D N) B(B T N, b_step) C(B T N, c_step) state?(B D N)"
    " bias?(D) skip?(D) gate?(B T D, gate_step) lengths?(B, int64)"
)
FORWARD = KERNEL.function(
    "forward",
    "threads B T D N",
    READS,
    makes="y(B T D) new_state(B D N) marks?learns(B chunks vectors N lanes)",
    room="scratch(threads width)",
)
BACKWARD = KERNEL.function(
    "backward",
    "threads B T D N",
    f"{READS} dy(B T D) marks(B chunks vectors N lanes) du(B T D, written) ddelta(B T D, written)"
    " dgate?(B T D, written) db(B T N, written) dc(B T N, written) dstate(B D N, written)"
    " db_parts(blocks B T N, written) dc_parts(blocks B T N, written)"
    " dA(B D N, float64, written) dbias(B D, float64, written) dskip(B D, float64, written)",
    room="scratch(threads width)",
)
STEP = KERNEL.function(
    "step",
    "threads B 1 D N",
    "u(B D, u_step) delta(B D, delta_step) log_rate(D N) B(B N, b_step) C(B N, c_step) state?(B D N, written)"
    " bias?(D) skip?(D) gate?(B D, gate_step) lengths?(B, int64) y(B D, written) new_state?(B D N, written)",
)
"""without `new_state` the state is overwritten"""


def callable_directly(*inputs: Tensor | None) -> bool:
    """Whether C may be called directly with these inputs, of which some may be None.

    RuntimeError in forward-mode differentiation.
    """
    if inputs[0] is None or native.observed(inputs[0]):
        return False
    if forward_ad._current_level >= 0:
        raise RuntimeError("forward-mode derivatives are not implemented in C: force selective_scan='reference'")
    return not (torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in inputs))

"""The C functions of the package (scan.c): their signatures."""

import ctypes
from pathlib import Path

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

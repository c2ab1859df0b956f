"""Native code without a build step: the C source of an op is compiled for this CPU at its first use.

    kernels = native.library(Path(__file__).with_name("kernel.c"))     # None where it cannot be compiled: see `why`

Every C function is declared with the tensors that it takes (`NativeFunction`), and every call is checked against the
declaration. Libraries are stored in the user's cache under a hash of source, headers, compiler and CPU, so that a
change of any of these makes a new library. It shares torch's OpenMP runtime. SEQLOOM_NATIVE=0 turns native code off.
"""

from seqloom.ops.native.entry import (
    COMPLEX,
    WORD,
    NativeFunction,
    alike,
    callable_directly,
    is_observed,
    need,
    size,
    unavailable,
)
from seqloom.ops.native.loaded import count_compiled, forget, library, why, without_compiling
from seqloom.ops.native.openmp import threads
from seqloom.ops.native.signature import Argument, Signature

__all__ = [
    "COMPLEX",
    "WORD",
    "Argument",
    "NativeFunction",
    "Signature",
    "alike",
    "callable_directly",
    "count_compiled",
    "forget",
    "is_observed",
    "library",
    "need",
    "size",
    "threads",
    "unavailable",
    "why",
    "without_compiling",
]

"""Native code without a build step: a C source next to its op becomes a library of this very CPU at its first use.

    kernels = native.library(Path(__file__).with_name("kernel.c"))     # None where there is none: see `why`

Each function of it is declared with the tensors that it takes (`Entry`), and every call is checked against that. The
library stays in the user's cache, under a name made of all that it depends on, so that another source, compiler or
CPU gets its own. It shares torch's OpenMP. SEQLOOM_NATIVE=0 turns native code off.
"""

from seqloom.ops.native.direct import alike, quiet, watched
from seqloom.ops.native.entry import COMPLEX, WORD, Entry, lacking, need, size
from seqloom.ops.native.loaded import forget, library, why
from seqloom.ops.native.openmp import threads
from seqloom.ops.native.signature import Argument, Signature

__all__ = [
    "COMPLEX",
    "WORD",
    "Argument",
    "Entry",
    "Signature",
    "alike",
    "forget",
    "lacking",
    "library",
    "need",
    "quiet",
    "size",
    "threads",
    "watched",
    "why",
]

"""Native code without a build step: a C source beside its op becomes a library of this very CPU at its first use.

    kernels = native.library(Path(__file__).with_name("kernel.c"))     # None where there is none: see `why`

The library stays in the user's cache, under a name made of all that it depends on, so that another source, compiler or
CPU gets its own. It shares torch's OpenMP. SEQLOOM_NATIVE=0 turns native code off.
"""

from seqloom.ops.native.calls import WORD, lacking, need, pointer
from seqloom.ops.native.loaded import forget, library, why
from seqloom.ops.native.openmp import threads

__all__ = ["WORD", "forget", "lacking", "library", "need", "pointer", "threads", "why"]

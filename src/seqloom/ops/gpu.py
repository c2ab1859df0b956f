"""Whether Triton's kernels can run: on a GPU, or, for tests, on a CPU under Triton's interpreter.

Triton is an extra (`pip install 'seqloom[kernels]'`), which torch for CUDA includes. An op's kernels are in its module
`gpu_kernels`; only such modules import Triton. TRITON_INTERPRET=1 must be set before Python starts.
"""

import os
from functools import cache
from importlib.util import find_spec

import torch

from seqloom.core.graphs import constant

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""whether kernels run on the CPU under the interpreter, which is slow"""
OLDEST = (8, 0)
"""the lowest compute capability that is supported"""
PRECISION = {"highest": "ieee", "high": "tf32x3", "medium": "tf32"}
"""how a kernel multiplies float32, by `torch.get_float32_matmul_precision`"""


@constant
def why() -> str:
    """The reason why kernels cannot run here, in a few words; "" if they can."""
    return _why()


@cache
def _why() -> str:
    # every call of an op asks, and the search for a package takes 0.1 ms
    if find_spec("triton") is None:
        return "Triton is not installed: pip install 'seqloom[kernels]'"
    if INTERPRETED:
        return ""
    if not torch.cuda.is_available():
        return "no GPU"
    return "" if torch.cuda.get_device_capability() >= OLDEST else "this GPU is too old for Triton"


def unavailable() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    reason = why()
    return {"triton": reason} if reason else {}


def supports(device: torch.device) -> bool:
    """Whether kernels can run on tensors of this device."""
    return device.type == ("cpu" if INTERPRETED else "cuda") and not why()


def best(device: torch.device) -> bool:
    """Whether kernels are the default on this device; never while a graph is exported, which may run elsewhere."""
    return device.type == "cuda" and not torch.compiler.is_exporting() and supports(device)


def blocks(n: int, size: int) -> int:
    """The number of blocks of `size` that hold n items."""
    return -(-n // size)


def power(n: int, least: int = 1) -> int:
    """The smallest power of two that is no less than n and `least`."""
    return 1 << (max(n, least) - 1).bit_length()

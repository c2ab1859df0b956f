"""Where Triton's kernels run: on a GPU, or on a CPU under Triton's interpreter, which is for tests.

Triton is an extra (`pip install 'seqloom[kernels]'`); torch for CUDA brings it. An op's kernels are in its module
`gpu_kernels`, the only kind that imports Triton. TRITON_INTERPRET=1 must be set before Python starts.
"""

import os
from importlib.util import find_spec

import torch

from seqloom.core.graphs import constant

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
"""whether kernels run on the CPU, in slow motion"""
OLDEST = (8, 0)
"""the least compute capability that Triton makes code for"""


@constant
def why() -> str:
    """Why no kernel can run here, in a few words; "" if it can."""
    if find_spec("triton") is None:
        return "Triton is not installed: pip install 'seqloom[kernels]'"
    if INTERPRETED:
        return ""
    if not torch.cuda.is_available():
        return "no GPU"
    return "" if torch.cuda.get_device_capability() >= OLDEST else "this GPU is too old for Triton"


def lacking() -> dict[str, str]:
    """This backend and why it is not available, if it is not."""
    reason = why()
    return {"triton": reason} if reason else {}


def able(device: torch.device) -> bool:
    """Whether kernels can run on tensors of this device."""
    return device.type == ("cpu" if INTERPRETED else "cuda") and not why()


def best(device: torch.device) -> bool:
    """Whether kernels are the default there: never in a graph that is to run elsewhere."""
    return device.type == "cuda" and not torch.compiler.is_exporting() and able(device)


def blocks(n: int, size: int) -> int:
    """How many blocks of `size` hold n."""
    return -(-n // size)


def power(n: int, least: int = 1) -> int:
    """The smallest power of two that is no less than n and `least`."""
    return 1 << (max(n, least) - 1).bit_length()

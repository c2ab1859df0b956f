"""The recurrence in C (scan.c): token by token, many channels at once, threads over rows and channels.

They are two operators of torch, which a compiled or exported model calls unchanged. Results do not depend on the number
of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.autograd import Operator, pair_operators
from seqloom.ops.kernel import Kernel
from seqloom.ops.scan import recurrence

NUMBERS = "threads paired fixed B T N"
KERNEL = Kernel("scans", Path(__file__).with_name("scan.c"), words=native.COMPLEX)
FORWARD = {
    ndim: KERNEL.function("forward", NUMBERS, f"a({a}) b(B T N) state(B N)", makes="h(B T N)")
    for ndim, a in ((1, "N"), (3, "B T N"))
}
"""by the number of dimensions of a: 1 if it is the same at every token, else 3"""
BACKWARD = {
    kind: KERNEL.function(
        "backward", NUMBERS, f"a({a}) h(B T N) state(B N) dh(B T N)", makes=f"da({da}) db(B T N) dstate(B N)"
    )
    for kind, a, da in (
        (torch.float64, "N", "B N, float64"),
        (torch.complex128, "N", "B N, complex128"),
        (None, "B T N", "B T N"),
    )
}
"""by the dtype of da where a is the same at every token, else None: it is a sum over all tokens"""


def _forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; float32 or float64, complex64 or complex128. ValueError where there is no native code."""
    h: Tensor = FORWARD.get(a.ndim, FORWARD[3])(a, b, state, **_numbers(a, b))
    return h


def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.float64) if a.ndim == 1 else None
    da, db, dstate = BACKWARD[wide](a, h, state, dh, **_numbers(a, h))
    return (da.sum(0).to(a.dtype) if a.ndim == 1 else da), db, dstate


def _numbers(a: Tensor, h: Tensor) -> dict[str, int]:
    return {"threads": native.threads(h.numel()), "paired": h.is_complex(), "fixed": a.ndim == 1}


forward: Operator = pair_operators(
    "scan",
    _forward,
    _backward,
    save=lambda inputs, outputs: (inputs[0], outputs[0], inputs[2]),
    differentiable=lambda *of: recurrence.gradients(forward, *of),
)

"""The recurrence in C (scan.c): token by token, many channels at once, threads over rows and channels.

They are two operators of torch, which a compiled or exported model calls unchanged. Results do not depend on the number
of threads.
"""

from pathlib import Path

import torch
from torch import Tensor

from seqloom.core.graphs import constant
from seqloom.ops import native
from seqloom.ops.autograd import Operator, paired
from seqloom.ops.native import Argument, Entry
from seqloom.ops.scans import recurrence

SOURCE = Path(__file__).with_name("scan.c")
"""the C source of both operators"""


def _entry(name: str, *arguments: Argument) -> Entry:
    return Entry("scans", SOURCE, name, "threads paired fixed B T N", *arguments, words=native.COMPLEX)


FORWARD = {
    ndim: _entry(
        "forward",
        Argument("a", a),
        Argument("b", "B T N"),
        Argument("state", "B N"),
        Argument("h", "B T N", written=True),
    )
    for ndim, a in ((1, "N"), (3, "B T N"))
}
"""by the number of dimensions of a: 1 if it is the same at every token, else 3"""
BACKWARD = {
    (ndim, wide): _entry(
        "backward",
        Argument("a", a),
        Argument("h", "B T N"),
        Argument("state", "B N"),
        Argument("dh", "B T N"),
        Argument("da", da, wide, written=True),
        Argument("db", "B T N", written=True),
        Argument("dstate", "B N", written=True),
    )
    for ndim, a, da, wide in (
        (1, "N", "B N", torch.float64),
        (1, "N", "B N", torch.complex128),
        (3, "B T N", "B T N", None),
    )
}
"""by the number of dimensions of a, and the dtype of da if a is the same at every token, else None"""


@constant
def available() -> bool:
    """Whether there is native code on this machine; the first call compiles it."""
    return native.library(SOURCE) is not None


def lacking() -> dict[str, str]:
    """This backend with the reason why it is not available; empty where it is."""
    return native.lacking("native", SOURCE)


def _forward(a: Tensor, b: Tensor, state: Tensor) -> Tensor:
    """See `recurrence.Scan`; float32 or float64, complex64 or complex128. ValueError where there is no native code."""
    h = _like(b)
    entry = FORWARD.get(a.ndim, FORWARD[3])
    entry(a, b, state, h, threads=native.threads(h.numel()), paired=h.is_complex(), fixed=a.ndim == 1)
    return h


def _backward(a: Tensor, h: Tensor, state: Tensor, dh: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    wide = torch.promote_types(a.dtype, torch.float64)  # the gradient of a constant a is a sum over all tokens
    da = h.new_empty(state.shape, dtype=wide) if a.ndim == 1 else _like(h)
    db, dstate = _like(h), _like(state)
    entry = BACKWARD[1, wide] if a.ndim == 1 else BACKWARD[3, None]
    threads = native.threads(h.numel())
    entry(a, h, state, dh, da, db, dstate, threads=threads, paired=h.is_complex(), fixed=a.ndim == 1)
    return (da.sum(0).to(a.dtype) if a.ndim == 1 else da), db, dstate


forward: Operator = paired(
    "scan",
    _forward,
    _backward,
    shapes=lambda a, b, state: [b.shape],
    gradient_shapes=lambda a, h, state, dh: [a.shape, h.shape, state.shape],
    save=lambda inputs, outputs: (inputs[0], outputs[0], inputs[2]),
    differentiable=lambda *of: recurrence.gradients(forward, *of),
)


def _like(x: Tensor) -> Tensor:
    return x.new_empty(x.shape)

"""Attention of one token over a cache, in one call of C (tiles.c), which also writes the token's key and value.

torch's kernel for a CPU is made for many queries: for one query it takes a third to a half longer, and also needs views
and copies.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from seqloom.ops import native
from seqloom.ops.attention.native import OP, SOURCE
from seqloom.ops.backends import forced_backend
from seqloom.ops.native import Argument, NativeFunction

BYTES = 64
"""bytes of a vector register, which the width of a head must fill"""
FORCED = (None, "kernel")
"""the forced backends of `attention` with which this may run; None where none is forced"""
READS = (
    Argument("q", "B H 1 K"),
    Argument("k", "B G 1 K"),
    Argument("v", "B G 1 V"),
    Argument("keys", "B G C K", written=True),
    Argument("values", "B G C V", written=True),
    Argument("length", "B", torch.long),
)
Y = Argument("y", "B H 1 V", written=True)
ENTRY = NativeFunction(OP, SOURCE, "token", "threads B H G C K V", *READS, Y, least="G C")


def supports(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether `attend` supports the call: on a CPU, heads that fill vectors, no gradients, no other forced backend."""
    if not native.callable_directly(q, k, v, keys, values):
        return False
    lanes = BYTES // q.element_size()
    sizes_fit = q.shape[-1] % lanes == 0 and v.shape[-1] % lanes == 0 and q.numel() > 0 and keys.shape[2] > 0
    has_code = q.dtype in native.WORD and q.is_cpu and native.library(SOURCE) is not None
    return (
        sizes_fit
        and has_code
        and keys.is_contiguous()
        and values.is_contiguous()
        and forced_backend("attention") in FORCED
    )


def attend(
    q: Float[Tensor, "B H 1 K"],
    k: Float[Tensor, "B G 1 K"],
    v: Float[Tensor, "B G 1 V"],
    keys: Float[Tensor, "B G C K"],
    values: Float[Tensor, "B G C V"],
    length: Int[Tensor, " B"],
) -> Float[Tensor, "B H 1 V"]:
    """Attention of a token over its own key and those of the `length` (B,) tokens before it, C keys at most.

    `keys` and `values` are rings (`seqloom.ops.past.ring`); the token is written into them, over the oldest of a full
    ring. Raises ValueError where sizes do not agree, a length is negative, or there is no native code.
    """
    y = q.new_empty(*q.shape[:3], v.shape[3])
    threads = min(native.threads(keys.numel()), len(k) * k.shape[1])
    if ENTRY(q, k, v, keys, values, length, y, threads=threads):
        raise ValueError("a cached token needs heads of whole vectors that G divides, and lengths of 0 or more")
    return y

"""One token of a whole Mamba mixer in one call of C (scan.c): four products, the short convolution and the scan.

It replaces two calls of C, four products and the views between them, whose overhead took most of a token's time.
"""

import ctypes
from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.native import Argument, Entry
from seqloom.ops.selective_scan.kernels import SOURCE

OPS = ("selective_scan", "short_convolution")
PRODUCTS = 1 << 17
"""as `one_token.PRODUCTS`; the two calls of C for more rows have less overhead than other mixers' operations"""
ENTRY = Entry(
    "selective_scan",
    SOURCE,
    "mixer",
    "threads B D E N R W",
    Argument("x", "B D"),
    Argument("w_in", "2*E D"),
    Argument("taps", "W E"),
    Argument("bias", "E"),
    Argument("window", "B W-1 E", written=True),
    Argument("w_x", "R+2*N E"),
    Argument("w_delta", "E R"),
    Argument("delta_bias", "E"),
    Argument("log_rate", "E N"),
    Argument("skip", "E"),
    Argument("state", "B E N", written=True),
    Argument("w_out", "D E"),
    Argument("y", "B D", written=True),
    Argument("scratch", "5*E+R+2*N", written=True),
    least="threads N R W",
    integer=ctypes.c_int64,
)


@final
class Weights(NamedTuple):
    """The parameters of one Mamba mixer, in the letters of `mixers/state_space/mamba.py`: E channels, N states."""

    w_in: Float[Tensor, "2*E D"]
    taps: Float[Tensor, "W E"]
    bias: Float[Tensor, " E"]
    w_x: Float[Tensor, "R+2*N E"]
    w_delta: Float[Tensor, "E R"]
    delta_bias: Float[Tensor, " E"]
    log_rate: Float[Tensor, "E N"]
    skip: Float[Tensor, " E"]
    w_out: Float[Tensor, "D E"]


def able(x: Token, window: Tensor, state: Tensor, weights: Weights) -> bool:
    """Whether C supports the call: see `one_token.able`."""
    return one_token.able(SOURCE, OPS, x, (window, state), weights, PRODUCTS)


def mix(
    x: Token, window: Float[Tensor, "B past E"], state: Float[Tensor, "B E N"], weights: Weights
) -> Float[Tensor, "B D"]:
    """The mixer's output for a token x (B, D). Writes into the convolution's `window` and the `state` of the scan.

    ValueError where sizes do not agree or there is no native code.
    """
    w_in, taps, bias, w_x, w_delta, delta_bias, log_rate, skip, w_out = weights
    E, width = taps.shape[1], w_x.shape[0]
    y, scratch = x.new_empty(x.shape), x.new_empty(5 * E + width)
    inputs = (x, w_in, taps, bias, window, w_x, w_delta, delta_bias, log_rate, skip, state, w_out)
    ENTRY(*inputs, y, scratch, threads=native.threads(w_in.numel()))
    return y

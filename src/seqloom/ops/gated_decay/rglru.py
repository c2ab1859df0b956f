"""One token of Griffin's block in one call of C (rglru.c); `seqloom.mixers.recurrent.rglru` defines the letters."""

from pathlib import Path
from typing import NamedTuple, final

from jaxtyping import Bool, Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("rglru.c")
OPS = ("gated_decay", "scans", "short_convolution")
ENTRY = Entry(
    "gated_decay",
    SOURCE,
    "rglru",
    "threads B D W H N",
    Argument("x", "B D"),
    Argument("w_y", "H*N D"),
    Argument("b_y", "H*N"),
    Argument("w_x", "H*N D"),
    Argument("b_x", "H*N"),
    Argument("taps", "W H*N"),
    Argument("bias", "H*N"),
    Argument("window", "B W-1 H*N", written=True),
    Argument("gates", "H N 2*N"),
    Argument("gate_bias", "H 2*N"),
    Argument("rate", "H*N"),
    Argument("fresh", "B", optional=True),
    Argument("h", "B H*N", written=True),
    Argument("w_o", "D H*N"),
    Argument("b_o", "D"),
    Argument("y", "B D", written=True),
    Argument("scratch", "6*H*N", written=True),
    least="W",
)


@final
class Weights(NamedTuple):
    """The parameters of one mixer: E channels of the recurrence in H heads of N."""

    w_y: Float[Tensor, "E D"]
    b_y: Float[Tensor, " E"]
    w_x: Float[Tensor, "E D"]
    b_x: Float[Tensor, " E"]
    taps: Float[Tensor, "W E"]
    bias: Float[Tensor, " E"]
    gates: Float[Tensor, "H N 2*N"]
    gate_bias: Float[Tensor, "H 2*N"]
    rate: Float[Tensor, " E"]
    w_o: Float[Tensor, "D E"]
    b_o: Float[Tensor, " D"]


def able(x: Token, entries: tuple[Tensor, ...], weights: Weights) -> bool:
    """Whether C supports the call, which writes into `entries` of the state: see `one_token.able`."""
    return one_token.able(SOURCE, OPS, x, entries, weights)


def token(
    x: Token,
    window: Float[Tensor, "B past E"],
    h: Float[Tensor, "B E"],
    weights: Weights,
    fresh: Bool[Tensor, " B"] | bool,
) -> Token:
    """The output (B, D) of token x, which begins a text in rows that are `fresh`. Writes into `window` and `h`.

    ValueError where sizes do not agree or there is no native code.
    """
    *first, taps, bias, gates, gate_bias, rate, w_o, b_o = weights
    y, scratch = x.new_empty(x.shape), x.new_empty(6 * len(rate))
    recurrence = gates, gate_bias, rate, _numbers(fresh, x), h
    ENTRY(x, *first, taps, bias, window, *recurrence, w_o, b_o, y, scratch, threads=native.threads(w_o.numel()))
    return y


def _numbers(fresh: Tensor | bool, x: Tensor) -> Tensor | None:
    """`fresh` (B,) in the dtype of x (B, D); None where no row is."""
    if isinstance(fresh, Tensor):
        return fresh.to(x.dtype)
    return x.new_ones(len(x)) if fresh else None

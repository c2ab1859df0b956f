"""One token of RWKV's time mixing and of its channel mixing, each in one call of C (wkv.c).

A layer has seven products of one row and twenty small operations; torch's overhead for them exceeds their own time.
"""

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.native import Argument, Entry
from seqloom.ops.wkv_average.native import OP, SOURCE

PRODUCTS = 1 << 18
"""as `one_token.PRODUCTS`; the operations for more rows have less overhead than other mixers' operations"""
TIME = Entry(
    OP,
    SOURCE,
    "time_mixing",
    "threads B D",
    Argument("x", "B D"),
    Argument("last", "B D", written=True),
    *(Argument(f"mu_{name}", "D") for name in "rkv"),
    *(Argument(f"w_{name}", "D D") for name in "rkv"),
    Argument("log_rate", "D"),
    Argument("bonus", "D"),
    Argument("sums", "B 3 D", written=True),
    Argument("w_out", "D D"),
    Argument("y", "B D", written=True),
    Argument("scratch", "7*D", written=True),
)
CHANNEL = Entry(
    OP,
    SOURCE,
    "channel_mixing",
    "threads B D W",
    Argument("x", "B D"),
    Argument("last", "B D", written=True),
    *(Argument(f"mu_{name}", "D") for name in "rk"),
    Argument("w_r", "D D"),
    Argument("w_k", "W D"),
    Argument("w_v", "D W"),
    Argument("y", "B D", written=True),
    Argument("scratch", "3*D+W", written=True),
)


def able(x: Token, entries: tuple[Tensor, ...], *weights: Tensor) -> bool:
    """Whether C supports the call, which writes into `entries` of the state: see `one_token.able`."""
    return one_token.able(SOURCE, (OP,), x, entries, weights, PRODUCTS)


def time_mixing(
    x: Token,
    last: Token,
    shares: tuple[Tensor, Tensor, Tensor],
    weights: tuple[Tensor, ...],
    log_rate: Float[Tensor, " D"],
    bonus: Float[Tensor, " D"],
    sums: Float[Tensor, "B 3 D"],
    w_out: Float[Tensor, "D D"],
) -> Token:
    """The output (B, D) of token x after the token `last`. Writes into `last` and `sums`.

    `shares` are μ_r, μ_k, μ_v (D,), `weights` W_r, W_k, W_v (D, D). ValueError where sizes do not agree or there is no
    native code.
    """
    y, scratch = x.new_empty(x.shape), x.new_empty(7 * x.shape[1])
    threads = native.threads(w_out.numel())
    TIME(x, last, *shares, *weights, log_rate, bonus, sums, w_out, y, scratch, threads=threads)
    return y


def channel_mixing(
    x: Token,
    last: Token,
    shares: tuple[Tensor, Tensor],
    w_r: Float[Tensor, "D D"],
    w_k: Float[Tensor, "W D"],
    w_v: Float[Tensor, "D W"],
) -> Token:
    """The output (B, D) of token x after the token `last`. Writes into `last`; raises as `time_mixing` does."""
    y, scratch = x.new_empty(x.shape), x.new_empty(3 * x.shape[1] + w_k.shape[0])
    threads = native.threads(w_k.numel())
    CHANNEL(x, last, *shares, w_r, w_k, w_v, y, scratch, threads=threads)
    return y

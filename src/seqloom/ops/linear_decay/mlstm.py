"""One token of mLSTM in one call of C (mlstm.c); `seqloom.mixers.recurrent.mlstm` defines the letters."""

from pathlib import Path
from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.native import Argument, Entry

SOURCE = Path(__file__).with_name("mlstm.c")
OPS = ("linear_decay", "short_convolution", "small_blocks")
ENTRY = Entry(
    "linear_decay",
    SOURCE,
    "mlstm",
    "threads B D W H K N exponential",
    Argument("x", "B D"),
    Argument("w_up", "2*H*K D"),
    Argument("taps", "W H*K"),
    Argument("bias", "H*K"),
    Argument("window", "B W-1 H*K", written=True),
    Argument("qkv", "3 blocks N N"),
    Argument("w_gates", "2*H 3*H*K"),
    Argument("b_gates", "2*H"),
    Argument("gain", "H*K"),
    Argument("skip", "H*K"),
    Argument("state", "B H K K+1", written=True),
    Argument("maxima", "B H", written=True),
    Argument("w_down", "D H*K"),
    Argument("y", "B D", written=True),
    Argument("scratch", "6*H*K+3*blocks*N+4*H", written=True),
    least="W N",
)


@final
class Weights(NamedTuple):
    """The parameters of one `mlstm` mixer: E inner channels."""

    w_up: Float[Tensor, "2*E D"]
    taps: Float[Tensor, "W E"]
    bias: Float[Tensor, " E"]
    qkv: Float[Tensor, "3 blocks N N"]
    w_gates: Float[Tensor, "2*H 3*E"]
    b_gates: Float[Tensor, " 2*H"]
    gain: Float[Tensor, " E"]
    skip: Float[Tensor, " E"]
    w_down: Float[Tensor, "D E"]


def able(x: Token, entries: tuple[Tensor, ...], weights: Weights) -> bool:
    """Whether C supports the call, which writes into `entries` of the state: see `one_token.able`."""
    return one_token.able(SOURCE, OPS, x, entries, weights)


def token(
    x: Token,
    window: Float[Tensor, "B past E"],
    state: Float[Tensor, "B H K N"],
    maxima: Float[Tensor, "B H"],
    weights: Weights,
    exponential: bool,
) -> Token:
    """The output (B, D) of token x, with the forget gate e^x or σ(x). Writes into the entries.

    ValueError where sizes do not agree or there is no native code.
    """
    w_up, taps, bias, *others, w_down = weights
    H, E = maxima.shape[1], len(bias)
    y, scratch = x.new_empty(x.shape), x.new_empty(9 * E + 4 * H)
    sizes = {"threads": native.threads(w_up.numel()), "exponential": int(exponential)}
    ENTRY(x, w_up, taps, bias, window, *others, state, maxima, w_down, y, scratch, **sizes)
    return y

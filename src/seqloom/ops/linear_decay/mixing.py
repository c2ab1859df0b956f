"""One token of a whole mixer around the decaying sum in one call of C (token.c): products, convolution, sum, norm.

It serves `gla`, `hgrn2` and `mamba2`, whose files in `seqloom.mixers` define the letters.
"""

from typing import NamedTuple, final

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.linear_decay.token import SOURCE
from seqloom.ops.native import Argument, Entry

OPS = ("linear_decay", "gated_norm", "short_convolution")
GLA = Entry(
    "linear_decay",
    SOURCE,
    "gla",
    "threads B D H K V R",
    Argument("x", "B D"),
    Argument("w_q", "H*K D"),
    Argument("w_k", "H*K D"),
    Argument("w_v", "H*V D"),
    Argument("w_1", "R D"),
    Argument("w_2", "H*K R"),
    Argument("b_2", "H*K"),
    Argument("w_g", "H*V D"),
    Argument("gain", "V"),
    Argument("scales", "2"),
    Argument("state", "B H K V", written=True),
    Argument("w_o", "D H*V"),
    Argument("y", "B D", written=True),
    Argument("scratch", "3*H*K+3*H*V+R", written=True),
)
HGRN2 = Entry(
    "linear_decay",
    SOURCE,
    "hgrn2",
    "threads B H K L number",
    Argument("x", "B H*K"),
    Argument("w_q", "H*K H*K"),
    Argument("w_f", "H*K H*K"),
    Argument("w_i", "H*K H*K"),
    Argument("table", "L H*K", optional=True),
    Argument("gain", "H*K"),
    Argument("scales", "1"),
    Argument("state", "B H K K", written=True),
    Argument("w_o", "H*K H*K"),
    Argument("y", "B H*K", written=True),
    Argument("scratch", "6*H*K", written=True),
)
MAMBA2 = Entry(
    "linear_decay",
    SOURCE,
    "mamba2",
    "threads B D W H G N P",
    Argument("x", "B D"),
    Argument("w_in", "2*H*P+2*G*N+H D"),
    Argument("taps", "W H*P+2*G*N"),
    Argument("bias", "H*P+2*G*N"),
    Argument("window", "B W-1 H*P+2*G*N", written=True),
    Argument("a_log", "H"),
    Argument("step_bias", "H"),
    Argument("skip", "H"),
    Argument("gain", "H*P"),
    Argument("scales", "1"),
    Argument("state", "B H N P", written=True),
    Argument("w_out", "D H*P"),
    Argument("y", "B D", written=True),
    Argument("scratch", "5*H*P+4*G*N+H", written=True),
    least="G W",
)


@final
class GLAWeights(NamedTuple):
    """The parameters of one `gla` mixer."""

    w_q: Float[Tensor, "keys D"]
    w_k: Float[Tensor, "keys D"]
    w_v: Float[Tensor, "values D"]
    w_1: Float[Tensor, "R D"]
    w_2: Float[Tensor, "keys R"]
    b_2: Float[Tensor, " keys"]
    w_g: Float[Tensor, "values D"]
    gain: Float[Tensor, " V"]
    w_o: Float[Tensor, "D values"]


@final
class HGRN2Weights(NamedTuple):
    """The parameters of one `hgrn2` mixer, and its model's table of bounds, None in the first layer."""

    w_q: Float[Tensor, "D D"]
    w_f: Float[Tensor, "D D"]
    w_i: Float[Tensor, "D D"]
    table: Float[Tensor, "L D"] | None
    gain: Float[Tensor, " D"]
    w_o: Float[Tensor, "D D"]


@final
class Mamba2Weights(NamedTuple):
    """The parameters of one `mamba2` mixer: E inner channels, C of them and of B and C convolved."""

    w_in: Float[Tensor, "all D"]
    taps: Float[Tensor, "W C"]
    bias: Float[Tensor, " C"]
    a_log: Float[Tensor, " H"]
    step_bias: Float[Tensor, " H"]
    skip: Float[Tensor, " H"]
    gain: Float[Tensor, "G width"]
    w_out: Float[Tensor, "D E"]


def able(x: Token, entries: tuple[Tensor, ...], weights: GLAWeights | HGRN2Weights | Mamba2Weights) -> bool:
    """Whether C supports the call, which writes into `entries` of the state: see `one_token.able`."""
    return one_token.able(SOURCE, OPS, x, entries, tuple([weight for weight in weights if weight is not None]))


def gla(x: Token, state: Float[Tensor, "B H K V"], weights: GLAWeights, tau: float, eps: float) -> Token:
    """The output (B, D) of token x. Writes into `state`.

    ValueError where sizes do not agree or there is no native code.
    """
    *before, gain, w_o = weights
    _, H, K, V = state.shape
    y, scratch = x.new_empty(x.shape), x.new_empty(3 * H * K + 3 * H * V + len(weights.w_1))
    threads = native.threads(w_o.numel())
    GLA(x, *before, gain, one_token.numbers(x.dtype, tau, eps), state, w_o, y, scratch, threads=threads)
    return y


def hgrn2(x: Token, state: Float[Tensor, "B H K K"], weights: HGRN2Weights, layer: int, eps: float) -> Token:
    """The output (B, D) of token x in layer number `layer`. Writes into `state`; raises as `gla` does."""
    *before, gain, w_o = weights
    L = 0 if weights.table is None else len(weights.table)
    y, scratch = x.new_empty(x.shape), x.new_empty(6 * len(gain))
    scales, threads = one_token.numbers(x.dtype, eps), native.threads(w_o.numel())
    HGRN2(x, *before, gain, scales, state, w_o, y, scratch, threads=threads, L=L, number=layer)
    return y


def mamba2(
    x: Token,
    window: Float[Tensor, "B past C"],
    state: Float[Tensor, "B H N P"],
    weights: Mamba2Weights,
    groups: int,
    eps: float,
) -> Token:
    """The output (B, D) of token x. Writes into `window` and `state`; raises as `gla` does."""
    w_in, taps, bias, a_log, step_bias, skip, gain, w_out = weights
    _, H, N, P = state.shape
    y, scratch = x.new_empty(x.shape), x.new_empty(5 * H * P + 4 * groups * N + H)
    rates = a_log, step_bias, skip, gain.view(-1), one_token.numbers(x.dtype, eps)
    threads = native.threads(w_in.numel())
    if MAMBA2(x, w_in, taps, bias, window, *rates, state, w_out, y, scratch, threads=threads, G=groups):
        raise ValueError(f"linear_decay: {H} heads are no multiple of {groups} groups")
    return y

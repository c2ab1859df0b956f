"""One token of RWKV-7's time mixing in one call of C (rwkv7.c); `seqloom.mixers.linear.rwkv7` defines the letters."""

from itertools import chain
from pathlib import Path
from typing import NamedTuple, TypeAlias, final

from jaxtyping import Float
from torch import Tensor, nn

from seqloom.core.shapes import Token
from seqloom.ops import native, one_token
from seqloom.ops.native import Argument, Entry
from seqloom.ops.projection import affine

SOURCE = Path(__file__).with_name("rwkv7.c")
ENTRY = Entry(
    "delta_rule",
    SOURCE,
    "rwkv7",
    "threads B D H K W A V G",
    Argument("x", "B H*K"),
    Argument("last", "B H*K", written=True),
    Argument("mu", "6 D"),
    Argument("w_r", "D D"),
    Argument("w_k", "D D"),
    Argument("w_v", "D D"),
    Argument("decay_in", "W D"),
    Argument("decay_out", "D W"),
    Argument("w_0", "D"),
    Argument("rate_in", "A D"),
    Argument("rate_out", "D A"),
    Argument("a_0", "D"),
    Argument("value_in", "V D", optional=True),
    Argument("value_out", "D V", optional=True),
    Argument("v_0", "D", optional=True),
    Argument("gate_in", "G D"),
    Argument("gate_out", "D G"),
    Argument("g_0", "D", optional=True),
    Argument("xi", "D"),
    Argument("alpha", "D"),
    Argument("rho", "H K"),
    Argument("gain", "D"),
    Argument("shift", "D"),
    Argument("first_values", "B D", optional=True),
    Argument("values", "B D", written=True),
    Argument("state", "B H K K", written=True),
    Argument("w_o", "D D"),
    Argument("y", "B D", written=True),
    Argument("scratch", "11*D+W+A+V+G", written=True),
)


LowRank: TypeAlias = tuple[Tensor | None, Tensor | None, Tensor | None]
"""the factors of a matrix (rank, D) and (D, rank), and their bias (D,); all None where there is no such matrix"""


@final
class Weights(NamedTuple):
    """The parameters of one mixer."""

    mu: Tensor | None
    square: tuple[Tensor, ...]
    """W_r, W_k, W_v and W_o (D, D)"""
    decay: LowRank
    rate: LowRank
    value: LowRank
    """None in the first layer"""
    gate: LowRank
    channels: tuple[Tensor | None, ...]
    """ξ, α, ρ, and gain and shift of GN"""


def low_rank(first: nn.Module | None, second: nn.Module | None) -> LowRank | None:
    """The factors of a matrix and their bias; None where one of them is no `Linear`, has hooks or a bias of its own."""
    factors = affine(first, second)
    if factors is None or factors[0][1] is not None:
        return None
    return factors[0][0], *factors[1]


def able(x: Token, entries: tuple[Tensor, ...], weights: Weights, first_values: Token | None) -> bool:
    """Whether C supports the call, which writes into `entries` of the state: see `one_token.able`."""
    mu, square, *low_rank, channels = weights
    given = [mu, first_values, *square, *chain.from_iterable(low_rank), *channels]
    return one_token.able(SOURCE, ("delta_rule",), x, entries, tuple(t for t in given if t is not None))


def token(
    x: Token, last: Token, state: Float[Tensor, "B H K K"], weights: Weights, first_values: Token | None
) -> tuple[Token, Token]:
    """The output (B, D) of token x, and its own values before the first layer's are mixed in, both (B, D).

    Writes into `last` and `state`. ValueError where sizes do not agree or there is no native code.
    """
    mu, (*square, w_o), *low_rank, channels = weights
    y, values = x.new_empty(x.shape), x.new_empty(x.shape)
    W, A, V, G = (0 if first is None else len(first) for first, _, _ in low_rank)
    scratch = x.new_empty(11 * x.shape[1] + W + A + V + G)
    given = mu, *square, *chain.from_iterable(low_rank), *channels, first_values
    if ENTRY(x, last, *given, values, state, w_o, y, scratch, threads=native.threads(w_o.numel()), V=V):
        raise ValueError("delta_rule: rwkv7 has all matrices of the value, or none")
    return y, values

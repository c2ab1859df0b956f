"""One token of a whole mixer of the delta rule in one call of C (token.c): products, convolution, rule, norm and gate.

It serves `gated_delta`, `kda` and `delta`, whose files in `seqloom.mixers.linear` define the letters.
"""

from pathlib import Path
from typing import NamedTuple, final

from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.core.state import Entries, State
from seqloom.ops import native
from seqloom.ops.head_norm import HeadNorm, plain_gain
from seqloom.ops.native import Argument, Entry
from seqloom.ops.one_token import able, numbers
from seqloom.ops.projection import Linear, affine, matrices
from seqloom.ops.short_convolution.layer import ShortConvolution, taps

SOURCE = Path(__file__).with_name("token.c")
OPS = ("delta_rule", "short_convolution")
ENTRY = Entry(
    "delta_rule",
    SOURCE,
    "mixer",
    "threads B D W H G K V A P Q R silu",
    Argument("x", "B D"),
    Argument("w_qkv", "2*H*K+G*V D"),
    Argument("taps", "W 2*H*K+G*V"),
    Argument("window", "B W-1 2*H*K+G*V", written=True),
    Argument("w_b", "G D"),
    Argument("rate_in", "R D", optional=True),
    Argument("w_a", "A P", optional=True),
    Argument("b_a", "A", optional=True),
    Argument("a_log", "G", optional=True),
    Argument("gate_in", "R D", optional=True),
    Argument("w_g", "G*V Q", optional=True),
    Argument("b_g", "G*V", optional=True),
    Argument("gain", "V"),
    Argument("scales", "2"),
    Argument("state", "B G K V", written=True),
    Argument("w_o", "D G*V"),
    Argument("y", "B D", written=True),
    Argument("scratch", "4*H*K+3*A+3*G+R+5*G*V", written=True),
    least="threads W",
)


@final
class Layers(NamedTuple):
    """The layers of a mixer. Decay and gate are optional; each is computed by one matrix or by two of low rank."""

    qkv: Linear
    conv: ShortConvolution
    strength: Linear
    norm: HeadNorm
    out: Linear
    a_log: Tensor | None = None
    rate_in: Linear | None = None
    rate: Linear | None = None
    gate_in: Linear | None = None
    gate: Linear | None = None


def token(
    x: Token, state: State, reuse: bool, layers: Layers, heads: int, largest_beta: float
) -> tuple[Token, Entries] | None:
    """The output for a token x (B, D), and the entries `window` and `S` after it; None where C cannot do it.

    `heads`: heads of q and k. With `reuse` the entries are overwritten. C supports few rows on a CPU, without gradients
    or hooks, and no other forced backend.
    """
    plain = matrices(layers.qkv, layers.strength, layers.out)
    others = affine(layers.rate_in, layers.rate, layers.gate_in, layers.gate)
    convolution, gain, window, S = taps(layers.conv), plain_gain(layers.norm), state["window"], state["S"]
    if plain is None or others is None or convolution is None or gain is None:
        return None
    (w_qkv, w_b, w_o), (tap_weights, tap_bias) = plain, convolution
    (rate_in, rate_bias), (w_a, b_a), (gate_in, gate_bias), (w_g, b_g) = others
    if not (tap_bias is rate_bias is gate_bias is None):
        return None
    given = (*plain, tap_weights, gain, layers.a_log, rate_in, w_a, b_a, gate_in, w_g, b_g)
    if not able(SOURCE, OPS, x, (window, S), tuple(t for t in given if t is not None)):
        return None
    _, G, K, V = S.shape
    A = 0 if w_a is None else len(w_a)
    R = max(0 if w is None else len(w) for w in (rate_in, gate_in))
    window, S = (window, S) if reuse else (window.clone(), S.clone())
    y = x.new_empty(x.shape)
    sizes = {"H": heads, "A": A, "R": R}
    sizes |= {name: 0 if w is None else w.shape[1] for name, w in (("P", w_a), ("Q", w_g))}
    scratch = x.new_empty(4 * heads * K + 3 * A + 3 * G + R + 5 * G * V)
    decay_tensors = rate_in, w_a, b_a, layers.a_log
    gate_tensors = gate_in, w_g, b_g
    scales = numbers(x.dtype, largest_beta, layers.norm.epsilon)
    silu, threads = layers.norm.gate == "silu", native.threads(w_qkv.numel())
    error = ENTRY(
        *(x, w_qkv, tap_weights, window, w_b, *decay_tensors, *gate_tensors, gain, scales, S, w_o, y, scratch),
        silu=silu,
        threads=threads,
        **sizes,
    )
    if error:
        raise ValueError(f"delta_rule: {heads} heads of keys, {G} of values, {A} decays of {R} numbers: no such mixer")
    return y, {"window": window, "S": S}

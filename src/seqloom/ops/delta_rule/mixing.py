"""One token of a whole mixer of the delta rule in one call of C (token.c): products, convolution, rule, norm and gate.

It serves `gated_delta`, `kda` and `delta`, whose files in `seqloom.mixers.linear` define the letters. One call replaces
about thirty operations of torch, whose overhead took most of a token's time.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple, final

import torch
from torch import Tensor

from seqloom.core.hooks import hooked
from seqloom.core.shapes import Token
from seqloom.core.state import Entries, State
from seqloom.ops import native
from seqloom.ops.backends import forced
from seqloom.ops.head_norm import HeadNorm
from seqloom.ops.native import Argument, Entry
from seqloom.ops.projection import Linear, affine
from seqloom.ops.short_convolution.layer import ShortConvolution

SOURCE = Path(__file__).with_name("token.c")
PRODUCTS = 1 << 17
"""the most products (rows times size of the largest matrix) for which C is used; it reads matrices once per row"""
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
    conv, norm = layers.conv, layers.norm
    weights = affine(layers.qkv, layers.strength, layers.out, layers.rate_in, layers.rate, layers.gate_in, layers.gate)
    if weights is None or hooked(conv) or hooked(norm):
        return None
    if type(conv) is not ShortConvolution or type(norm) is not HeadNorm:
        return None
    (w_qkv, _), (w_b, _), (w_o, _), (rate_in, _), (w_a, b_a), (gate_in, _), (w_g, b_g) = weights
    taps, gain, window, S = conv._parameters["weight"], norm._parameters["weight"], state["window"], state["S"]
    optional_weights = tuple(
        t for t in (taps, gain, layers.a_log, rate_in, w_a, b_a, gate_in, w_g, b_g) if t is not None
    )
    if w_qkv is None or w_b is None or w_o is None or not _able(x, window, S, w_qkv, w_b, w_o, *optional_weights):
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
    scales = _scales(largest_beta, norm.eps, x.dtype)
    silu, threads = norm.gate == "silu", native.threads(w_qkv.numel())
    error = ENTRY(
        *(x, w_qkv, taps, window, w_b, *decay_tensors, *gate_tensors, gain, scales, S, w_o, y, scratch),
        silu=silu,
        threads=threads,
        **sizes,
    )
    if error:
        raise ValueError(f"delta_rule: {heads} heads of keys, {G} of values, {A} decays of {R} numbers: no such mixer")
    return y, {"window": window, "S": S}


def _able(x: Token, window: Tensor, S: Tensor, *weights: Tensor) -> bool:
    """Whether the C code can compute the token; the first of the weights is the largest matrix."""
    if not native.callable_directly(x, window, S, *weights):
        return False
    rows = x.shape[0]
    few = x.numel() > 0 and (rows == 1 or rows * weights[0].numel() <= PRODUCTS) and x.dtype in native.WORD and x.is_cpu
    for op in ("delta_rule", "short_convolution"):
        if forced(op) not in (None, "native"):
            return False
    dense = window.is_contiguous() and S.is_contiguous()
    return few and dense and forced("projection") is None and native.library(SOURCE) is not None


@cache
def _scales(largest_beta: float, eps: float | None, dtype: torch.dtype) -> Tensor:
    """The largest β and the norm's ε as a tensor, the form in which the C code reads numbers of its dtype."""
    assert eps is not None
    return torch.tensor([largest_beta, eps], dtype=dtype)

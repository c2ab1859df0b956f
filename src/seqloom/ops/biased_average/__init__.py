"""The average of the values so far, weighted by the key of each token and by a learned bias for its lag.

    y_t = (Σ_{l<L} e^{k_{t-l} + b_{t,l}} v_{t-l} + Σ_{l≥L} e^{k_{t-l}} v_{t-l}) / (the same sums with 1 for v)

l is the lag; there are no tokens before the first, and the bias is 0 at lags of L and more. k has one number per
channel, or one per group of channels, K in all. The bias is (B, T, L, K), with size 1 on axes along which it does not
change: a table over positions is (1, T, L, 1), a convolution (1, 1, L, K).

Backends: `reference`; `blocks`, products with the matrix of e^b; `lags`, the lag sum with the taps e^b, for biases that
are the same at every position. Both are stable and causal by divide and conquer (`divide_and_conquer.py`). The biases
of a query, including the 0 beyond L, must lie within 60 of each other in float32 and bfloat16, within 600 in float64;
keys may have any size.

Source: Zhai et al., An Attention Free Transformer, arXiv:2105.14103, Eq. 2, 3, 5. What differs: the paper's AFT-conv
adds a convolution with e^w - 1 to a sum over all tokens, which cancels where w is far below 0; here the sum is only
over tokens before the window, so nothing cancels. Sums are over tokens up to t, not up to T.
"""

from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Stream
from seqloom.ops import backends
from seqloom.ops.biased_average import blocks, lagged, reference
from seqloom.ops.biased_average import total as totals
from seqloom.ops.biased_average.total import Keys, Past, Total
from seqloom.ops.op import CHANNELS, Backend, Draw, Op

Bias: TypeAlias = Float[Tensor, "..."]
"""(B, T, L, K), with size 1 on every axis along which it does not change"""

LONG = 512
"""tokens above which the lag sum is faster than the matrix of the same taps"""


def average(k: Keys, v: Stream, bias: Bias, past: Past | None = None, total: Total | None = None) -> Stream:
    """The average at each position of v (B, T, D) under keys (B, T, K), K dividing D: (B, T, D).

    `past` are the keys (B, P, K) and values (B, P, D) of the P tokens before, with keys of -inf where a row has fewer
    tokens; no other key may be -inf. `total` is the sum over all tokens before those in `past`. Differentiable in every
    argument. Raises ValueError where sizes do not agree.
    """
    _check(k, v, bias)
    run = OP[OP.choose(k, bias)]
    y: Tensor = run(k, v, bias, past, total) if v.numel() else v.clone()
    return y


def add_tokens(total: Total, k: Keys, v: Stream) -> Total:
    """The total with the tokens of k (B, N, K) and v (B, N, D) added, except tokens with a key of -inf."""
    name = backends.choice("biased_average", "blocks")
    return reference.add_tokens(total, k, v) if name == "reference" else totals.add_tokens(total, k, v)


def choose_backend(k: Tensor, bias: Tensor) -> str:
    """The fastest backend for these sizes, as measured on a CPU core with 4 heads and a window of 32."""
    return "lags" if _is_convolution(k, bias) and k.shape[1] > LONG else "blocks"


def _is_convolution(k: Tensor, bias: Tensor) -> bool:
    """Whether the bias is the same at every position."""
    return bias.shape[:2] == (1, 1)


def _check(k: Tensor, v: Tensor, bias: Tensor) -> None:
    B, T, K = k.shape
    if v.shape[:2] != (B, T) or K == 0 or v.shape[2] % K:
        raise ValueError(f"keys {tuple(k.shape)} do not fit values {tuple(v.shape)}: give (B, T, K) with K dividing D")
    fits = bias.ndim == 4 and all(
        size in (1, expected) for size, expected in zip(bias.shape, (B, T, bias.shape[2], K), strict=True)
    )
    if not fits or bias.shape[2] == 0:
        raise ValueError(
            f"a bias of shape {tuple(bias.shape)} does not fit keys {tuple(k.shape)}: give ({B}, {T}, L, {K}), or 1 "
            "where it does not change"
        )


def _convolution(draw: Draw, B: int, T: int) -> Tensor:
    return average(draw(B, T, 4), draw(B, T, CHANNELS), draw(1, 1, 32, 4))


def _table(draw: Draw, B: int, T: int) -> Tensor:
    past = (draw(B, 2, CHANNELS), draw(B, 2, CHANNELS))
    return average(draw(B, T, CHANNELS), draw(B, T, CHANNELS), draw(1, T, 5, 1), past)


OP = Op(
    "biased_average",
    {
        "reference": Backend(reference.average),
        "blocks": Backend(blocks.average, plain=True),
        "lags": Backend(lagged.average, fits=_is_convolution, plain=True),
    },
    rule=choose_backend,
    examples=(_convolution, _table),
    price=reference.price,
)

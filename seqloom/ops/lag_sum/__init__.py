"""The sum over lags: each output is a weighted sum of the inputs before it, weighted by how long ago they were.

    y_i = Σ_{k=0}^{L-1} x_{i-k} W_k                      inputs before the first are 0

W is one of four kinds, told apart by its shape: (L, D, D) mixes channels; (L, G, D/G, D/G) mixes them inside each of G
groups; (L, D) weighs each channel alone; (L,) weighs all channels alike.

Source: the Extractor paper's Eq. 23, 26, 28 and 29, with k = i - j and W_k for the paper's W_{i-j+1}. Nothing differs.
"""

from typing import TypeAlias

from jaxtyping import Float
from torch import Tensor, cat, compiler, is_grad_enabled

from seqloom.core.shapes import Stream
from seqloom.ops import backends
from seqloom.ops.lag_sum import direct, fft, native, reference, toeplitz

Taps: TypeAlias = Float[Tensor, "L ..."]
"""one of (L, D, D), (L, G, D/G, D/G), (L, D), (L,)"""
RUN = {
    "reference": reference.lags,
    "direct": direct.lags,
    "fft": fft.lags,
    "toeplitz": toeplitz.lags,
    "native": native.lags,
}
EXACT = ("reference", "direct", "toeplitz", "native")
"""the backends in which an output is exactly unaffected by later inputs"""

backends.declare("lag_sum", tuple(RUN), native.lacking)


def lags(x: Stream, w: Taps, past: Float[Tensor, "B P D"] | None = None) -> Stream:
    """The lag sum of x (B, T, D) under the taps w, one of (L, D, D), (L, G, D/G, D/G), (L, D), (L,).

    `past` (B, P, D) are the inputs right before x. Raises ValueError where the channels of w and x do not agree.
    Backends: `direct`, `toeplitz` (for (L,) only) and `native` (on a CPU, for (L, D) and (L,)) are exactly causal;
    `fft` moves outputs before a changed input by at most 8 eps · max|x| · Σ|w| · log2(2T), where max|x| is over all
    inputs, later ones too. All are differentiable twice.
    """
    _check(x, w)
    if past is not None and past.shape[1]:
        return _run(cat([past, x], 1), w)[:, past.shape[1] :]
    return _run(x, w)


def _run(x: Tensor, w: Tensor) -> Tensor:
    return x.clone() if x.numel() == 0 else RUN[chosen(x, w)](x, w[: x.shape[1]])


def chosen(x: Stream, w: Taps) -> str:
    """The backend that `lags` runs for these inputs and taps."""
    lacking = {"toeplitz"} if w.ndim > 1 else set()
    lacking |= {"native"} if w.ndim > 2 or x.device.type != "cpu" else set()
    able = [name for name in RUN if name not in lacking]
    return backends.choose("lag_sum", by_size(x, w), able)


def by_size(x: Stream, w: Tensor) -> str:
    """The fastest backend for these sizes: crossovers measured on 2 CPU cores (docs/log.md).

    An exported graph must run where there is no native code.
    """
    lagging = min(x.shape[1], len(w))
    here = x.device.type == "cpu" and not compiler.is_exporting()
    if w.ndim <= 2 and lagging <= 2048 and here and native.available():
        return "native"
    if w.ndim == 1:
        return "toeplitz" if x.shape[1] <= 384 else "fft"
    few_rows = w.ndim > 2 and len(x) <= 2 and not is_grad_enabled()  # the taps' spectrum would not pay for itself
    return "direct" if few_rows or lagging <= 8 else "fft"


def _check(x: Tensor, w: Tensor) -> None:
    D, shape = x.shape[2], tuple(w.shape[1:])
    groups = shape[0] if w.ndim == 4 and shape[0] and D % shape[0] == 0 else 1
    fitting = {1: (), 2: (D,), 3: (D, D), 4: (groups, D // groups, D // groups)}
    if len(w) == 0 or shape != fitting.get(w.ndim):
        raise ValueError(
            f"taps of shape {tuple(w.shape)} do not fit {D} channels: give (L, {D}, {D}), (L, G, {D}/G, {D}/G), "
            f"(L, {D}) or (L,)"
        )

"""The prices of our fused operators in C, forward, as their equations have them."""

from collections.abc import Callable
from functools import partial

from seqloom.core.cost import Cost, Span, gate, linear, rootnorm, sigmoid
from seqloom.counting.pointwise import Call, Rule, times
from seqloom.ops.fused.gated_decay.reference import price as gates_price
from seqloom.ops.fused.short_convolution.reference import price as convolution_price
from seqloom.ops.fused.small_blocks.reference import price as blocks_price
from seqloom.ops.recurrence.reference import elman_price, gru_price, lstm_price
from seqloom.ops.recurrence.slstm.reference import price as cell_price

CELLS: dict[str, Callable[[int, int], Cost]] = {
    "elman": elman_price,
    "lstm": lstm_price,
    "gru": partial(gru_price, reset_after=False),
    "gru_after": partial(gru_price, reset_after=True),
}


def _plain(price: Cost) -> Cost:
    """The operations of a price, without parameters, state and path."""
    return Cost(mul=price.mul, add=price.add, div=price.div, exp=price.exp, other=price.other)


def short_convolution(call: Call) -> Cost:
    """The short convolution; after a window each token has all its inputs."""
    x, taps, bias, window, silu = call.args
    (B, T, D), W = x.shape, len(taps)
    if window is None:
        return times(convolution_price(Span(T), D, W, bias is not None, silu), B)
    rows = B * T * D
    return _plain(Cost(mul=rows * W, add=rows * (W - 1 + (bias is not None))) + (sigmoid(rows) if silu else Cost()))


def head_norm(call: Call) -> Cost:
    """The norm of heads, with its gate."""
    y, z = call.args[:2]
    price = _plain(rootnorm(y.numel() // y.shape[3], y.shape[3]))
    return price if z is None else price + _plain(gate(y.numel()))


def small_blocks(call: Call) -> Cost:
    """Products with small blocks."""
    x, w = call.args[:2]
    return _plain(blocks_price(x.numel() // x.shape[2], x.shape[2], w.shape[1]))


def gated_decay(call: Call) -> Cost:
    """RG-LRU's gates with their product; softplus(Λ) and its product with c are torch's."""
    n, (_, N, M) = call.args[0].numel(), call.args[1].shape
    price = _plain(gates_price(n) + linear(n // N, N, M, True))
    return Cost(mul=price.mul - n, add=price.add - n, div=price.div, exp=price.exp - n, other=price.other - n)


def slstm(call: Call) -> Cost:
    """The sLSTM with the product of its state's matrix and the bias."""
    a, w = call.args[:2]
    rows, (H, K, G) = a.shape[0] * a.shape[1], w.shape
    return _plain(cell_price(rows, H * K)) + Cost(mul=rows * H * K * G, add=rows * H * K * G)


def recurrence(call: Call) -> Cost:
    """A cell over all tokens, with the product of its state's matrix (gates, N)."""
    a, w = call.args[:2]
    rows, (gates, N) = a.shape[0] * a.shape[1], w.shape
    return _plain(CELLS[call.args[5]](rows, N) + linear(rows, N, gates))


RULES: dict[str, Rule] = {
    "short_convolution_forward": short_convolution,
    "gated_norm_forward": head_norm,
    "small_blocks_forward": small_blocks,
    "gated_decay_forward": gated_decay,
    "slstm_forward": slstm,
    "recurrence_forward": recurrence,
}

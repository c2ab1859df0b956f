"""The prices of this package's own operators, in C or on a GPU, forward: what their equations compute."""

from typing import Any

from seqloom.core.cost import Cost, Span
from seqloom.counting.pointwise import Call, times
from seqloom.ops.delta_rule.reference import price as delta_price
from seqloom.ops.lag_sum import spectral
from seqloom.ops.linear_decay import gpu as decay_gpu
from seqloom.ops.linear_decay import native as decay_native
from seqloom.ops.linear_decay.reference import price as decay_price


def wkv_average(call: Call) -> Cost:
    """Our own running average in C, forward: two shares, two means between two numbers, and ln(1 + e)."""
    return times(Cost(mul=4, add=11, div=2, exp=2, other=4), call.args[0].numel())


def lag_sum(call: Call) -> Cost:
    """Our own lag sum in C or on a GPU, forward: what the equation has, but for the edges of its blocks."""
    (B, T, D), w = call.args[0].shape, call.args[1]
    products = Span(T).terms(len(w)) * (w.shape[-1] if w.ndim > 2 else 1)
    return times(Cost(mul=products, add=products - T), B * D)


def spectral_lag_sum(call: Call) -> Cost:
    """Our own lag sum by transforms in C, forward; sums that it computes again for each block are counted once."""
    (B, T, D), w = call.args[0].shape, call.args[1]
    N = spectral.kernels.points(len(w))
    rows, log = B * -(-T // N), N.bit_length() - 1
    quarters, halves = log // 2 * (N // 4), log % 2 * (N // 2)
    per_transform = Cost(mul=12 * quarters + 4 * halves, add=22 * quarters + 6 * halves)
    scaled = Cost(mul=call.out.numel())
    if w.ndim == 2:
        return times(per_transform, D + 2 * rows * D) + Cost(mul=4 * N * rows * D, add=2 * N * rows * D) + scaled
    taps = w[0].numel()
    products = Cost(mul=3 * rows * taps, add=3 * rows * (taps - D) + 3 * rows * D + taps + rows * D)
    return times(per_transform, taps + 2 * rows * D) + times(products, N) + scaled


def scan(call: Call) -> Cost:
    """Our own recurrence of channels in C, forward: a product and a sum for each number, or for each complex one."""
    return times(Cost(mul=4, add=4) if call.out.is_complex() else Cost(mul=1, add=1), call.out.numel())


def narrow_attention(call: Call) -> Cost:
    """Our own attention in narrow heads on a GPU, forward: the scores of all pairs, hidden ones too."""
    (B, T, H, K), V = call.args[0].shape, call.args[2].shape[3]
    pairs = T * T
    price = Cost(mul=pairs * (K + V) + T * K, add=pairs * (K + V + 1), div=pairs, exp=pairs)
    return times(price, B * H)


def linear_decay_gpu(call: Call) -> Cost:
    """Our own decaying sum on a GPU, forward: by chunks, each of which is computed whole, with all its pairs."""
    (B, H, T, K), V, has_decay = call.args[0].shape, call.args[2].shape[3], call.args[3] is not None
    C = decay_gpu.chunk(call.args[0].dtype)
    n = -(-T // C) * C
    products = n * (C * (K + V) + 2 * K * V)
    decay = Cost(mul=n * (C + 2 * V) + n // C * K * V, add=n * (C + 2), exp=n * (C + 2) + n // C)
    return times(Cost(mul=products, add=products) + times(decay, int(has_decay)), B * H)


def linear_decay_native(call: Call) -> Cost:
    """Our own decaying sum on a CPU, forward: by chunks; pairs once for the heads that share keys."""
    (B, T, G, K), (H, V), has_decay = call.args[0].shape, call.args[2].shape[2:], call.args[3] is not None
    C = decay_native.CHUNK
    chunks, pairs = -(-T // C), T // C * C * (C + 1) // 2 + (T % C) * (T % C + 1) // 2
    products = G * pairs * K + H * (pairs * V + 2 * T * K * V)
    decay = Cost(mul=H * (2 * pairs + 2 * T * V + chunks * K * V + 2 * T), exp=H * T)
    return times(Cost(mul=products, add=products) + times(decay, int(has_decay)), B)


def delta_rule(call: Call) -> Cost:
    """Our own delta rule in C, forward: what the equation has."""
    q, _, v, erase, write, g = call.args[:6]
    decay: Any = "none"
    if g is not None:
        decay = "head" if g.shape[3] == 1 else "channel"
    sizes = q.shape[0] * q.shape[1], q.shape[2], q.shape[3], v.shape[3]
    if erase is None:
        return decay_price(*sizes, decay)
    return delta_price(*sizes, decay, write is not None)


def selective_scan(call: Call) -> Cost:
    """Our own selective scan in C, forward: Δ, a decay for each state, input and output; its weights once."""
    D, N = call.args[0].numel(), call.args[2].shape[1]
    soft, skip, gate = (int(argument is not None) for argument in call.args[6:9])
    price = Cost(
        mul=4 * N + 1 + skip + 2 * gate,
        add=2 * N - 1 + 2 * soft + skip + gate,
        div=gate,
        exp=N + soft + gate,
        other=soft,
    )
    return times(price, D) + Cost(mul=N * call.args[2].shape[0], exp=N * call.args[2].shape[0])

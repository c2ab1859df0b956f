"""The prices of torch's larger ops: matrix products, norms, softmax, Fourier transforms, convolution, attention.

    (m, k) by (k, n)            m·k·n products, m·n·(k-1) additions; a complex product is 4 and 2 additions, a sum 2
    a transform of n numbers    n·log2(n)/2 butterflies of one complex product and two complex sums, as in radix 2:
                                2n·log2(n) products, 3n·log2(n) additions; half of it where input or output is real;
                                and one product a number where it is scaled, as an inverse is
    softmax of n numbers        n exponentials, n-1 additions, n divisions: no stabilizing maximum
    attention                   on a CPU, by blocks: see `attention`

The count of a Fourier transform is the convention in which its speed is quoted (5/2 n·log2(n) for a real one), not a
trace of a library's code, which may need 20% less (split radix) and is less regular where n is no power of two.
"""

import math

from torch import Tensor

from seqloom.core.cost import Cost, gelu, gelu_tanh, layernorm
from seqloom.counting.own_kernels import (
    delta_rule,
    lag_sum,
    linear_decay_gpu,
    linear_decay_native,
    narrow_attention,
    scan,
    selective_scan,
    spectral_lag_sum,
    wkv_average,
)
from seqloom.counting.pointwise import Call, Rule, times
from seqloom.ops.state_space.reference import exponential_price, solution_price


def product(left: Tensor, right: Tensor) -> Cost:
    """The price of the matrix product (…, m, k) by (…, k, n)."""
    k = left.shape[-1]
    m = left.numel() // max(k, 1)
    n = right.shape[-1] if right.ndim > 1 else 1
    products = m * k * n
    sums = m * n * max(k - 1, 0)
    if left.is_complex():
        return Cost(mul=4 * products, add=2 * products + 2 * sums)
    return Cost(mul=products, add=sums)


def multiply(call: Call) -> Cost:
    """mm, bmm, mv, dot."""
    return product(call.args[0], call.args[1])


def multiply_add(call: Call) -> Cost | None:
    """addmm, baddbmm, addmv: the product and what is added to it, unscaled."""
    if call.kwargs.get("alpha", 1) != 1 or call.kwargs.get("beta", 1) != 1:
        return None
    added = call.out.numel() * (2 if call.out.is_complex() else 1)
    return product(call.args[1], call.args[2]) + Cost(add=added)


def linear_layer(call: Call) -> Cost:
    """oneDNN's x Wᵀ + b."""
    x, weight, bias = call.args[:3]
    return product(x.flatten(0, -2), weight.T) + Cost(add=call.out.numel() * (bias is not None))


def norm(call: Call) -> Cost | None:
    """Layer normalization as `seqloom.core.cost` prices it."""
    x, shape, gain, bias = call.args[0], call.args[1], call.get(2, "weight"), call.get(3, "bias")
    width = math.prod(shape)
    rows = x.numel() // width
    price = layernorm(rows, width, gain is not None, bias is not None)
    return Cost(mul=price.mul, add=price.add, div=price.div, other=price.other)


def softmax(call: Call) -> Cost:
    """Over one axis."""
    n, width = call.out.numel(), max(call.out.shape[call.get(1, "dim")], 1)
    return Cost(add=n - n // width, div=n, exp=n)


def log_softmax(call: Call) -> Cost:
    """x - log Σ e^x: one logarithm a row, counted in `other`, and one subtraction a number."""
    n, width = call.out.numel(), max(call.out.shape[call.get(1, "dim")], 1)
    return Cost(add=n - n // width + n, exp=n, other=n // width)


def log_sum(call: Call) -> Cost:
    """log Σ e^x."""
    n, rows = call.args[0].numel(), call.out.numel()
    return Cost(add=n - rows, exp=n, other=rows)


def fourier_transform(call: Call) -> Cost | None:
    """A Fourier transform along one axis, counted as radix 2."""
    x, dims, scaled = call.args[:3]
    if len(dims) != 1:
        return None
    complex_to_complex = x.is_complex() and call.out.is_complex()
    line = max(x.shape[dims[0]], call.out.shape[dims[0]])  # real data are longer than their spectrum
    count = call.out.numel() // call.out.shape[dims[0]] * (2 if complex_to_complex else 1)
    work = line * math.log2(line)
    numbers = call.out.numel() * (2 if call.out.is_complex() else 1)
    return Cost(mul=round(work) * count + numbers * bool(scaled), add=round(1.5 * work) * count)


def convolution(call: Call) -> Cost | None:
    """Each output is a sum over the whole window, padding included."""
    weight, bias, transposed = call.args[1], call.args[2], call.get(6, "transposed", False)
    if transposed or call.out.is_complex():
        return None
    n, window = call.out.numel(), weight[0].numel()
    return Cost(mul=n * window, add=n * (window - 1 + (bias is not None)))


def attention(call: Call) -> Cost | None:
    """torch's attention kernel for the CPU, as it runs: scores are formed in blocks of 512 keys, whole.

    Queries go in blocks of 32, 64 (from 192 queries) or 256 (from 768). With `is_causal` a block of keys is left out
    only if it lies behind all queries of the block; in what is left, hidden scores are computed like the others, so up
    to 512 tokens causal attention costs the whole square. The running maximum, what it takes off the scores, and its
    rescaling are not counted. With dropout it has no price, nor have the kernels for other devices.
    """
    q, k, v = call.args[:3]
    if call.get(3, "dropout_p", 0.0):
        return None
    Tq, Tk, K, V = q.shape[2], k.shape[2], q.shape[3], v.shape[3]
    block = 32
    if Tq >= 768:
        block = 256
    elif Tq >= 192:
        block = 64
    scores = 0
    for first in range(0, Tq, block):
        last = min(first + block, Tq)
        reach = min(last, Tk) if call.get(4, "is_causal", False) else Tk
        scores += (last - first) * min(-(-reach // 512) * 512, Tk)
    rows, masked = Tq, call.kwargs.get("attn_mask") is not None
    price = Cost(
        mul=scores * (K + 1 + V) + rows * V,  # scores, scale, values; each value by the reciprocal of its sum
        add=scores * (K - 1 + masked) + (scores - rows) * (V + 1),
        div=rows,
        exp=scores,
    )
    return times(price, q.shape[0] * q.shape[1])


def lstm(call: Call) -> Cost | None:
    """oneDNN's LSTM: eight products a token, three sigmoids, two tanhs, and its two biases, summed once."""
    x, N = call.args[0], call.args[1].shape[0] // 4
    if call.args[9] != 2:  # torch's code for an LSTM
        return None
    rows, D = x.shape[0] * x.shape[1], x.shape[2]
    gates = 4 * N * (D + N)
    return Cost(mul=rows * (gates + 5 * N), add=rows * (gates + 8 * N) + 4 * N, div=rows * 5 * N, exp=rows * 5 * N)


def gelu_activation(call: Call) -> Cost:
    """GELU as it is defined, x/2 (1 + erf(x/√2)), or approximated by tanh."""
    price = gelu if call.kwargs.get("approximate", "none") == "none" else gelu_tanh
    return price(call.out.numel())


def linear_system(call: Call) -> Cost | None:
    """The price of linear systems by elimination, or of matrix exponentials, as `ops.state_space` counts them."""
    matrix, N = call.args[0], call.args[0].shape[-1]
    if matrix.is_complex() or (len(call.args) > 1 and call.args[1].ndim != matrix.ndim):
        return None
    price = solution_price(N, call.args[1].shape[-1]) if len(call.args) > 1 else exponential_price(N)
    return times(price, matrix.numel() // N**2)


def triangular_solution(call: Call) -> Cost | None:
    """Triangular systems (…, N, N) with a diagonal of ones: each row takes what the rows before it add up to."""
    N, sides = call.out.shape[-2:]
    if not call.kwargs.get("unitriangular", False) or call.out.is_complex():
        return None
    pairs = N * (N - 1) // 2
    return times(Cost(mul=pairs * sides, add=pairs * sides), call.out.numel() // (N * sides))


RULES: dict[str, Rule] = (
    dict.fromkeys(("mm", "bmm", "mv", "dot"), multiply)
    | dict.fromkeys(("addmm", "baddbmm", "addmv"), multiply_add)
    | dict.fromkeys(("_linalg_solve_ex", "linalg_matrix_exp"), linear_system)
    | dict.fromkeys(("_softmax", "_safe_softmax"), softmax)
    | dict.fromkeys(("_fft_r2c", "_fft_c2r", "_fft_c2c"), fourier_transform)
    | {
        "native_layer_norm": norm,
        "_log_softmax": log_softmax,
        "logsumexp": log_sum,
        "convolution": convolution,
        "mkldnn_rnn_layer": lstm,
        "_linear_pointwise": linear_layer,
        "wkv_forward": wkv_average,
        "selective_forward": selective_scan,
        "lag_sum_forward": lag_sum,
        "lag_sum_gpu_forward": lag_sum,
        "lag_sum_tiles_forward": lag_sum,
        "spectral_lag_sum_forward": spectral_lag_sum,
        "scan_forward": scan,
        "wkv_gpu_forward": wkv_average,
        "scan_gpu_forward": scan,
        "selective_gpu_forward": selective_scan,
        "decay_gpu_forward": linear_decay_gpu,
        "narrow_attention_forward": narrow_attention,
        "linear_decay_forward": linear_decay_native,
        "delta_rule_forward": delta_rule,
        "linalg_solve_triangular": triangular_solution,
        "gelu": gelu_activation,
        "_scaled_dot_product_flash_attention_for_cpu": attention,
    }
)

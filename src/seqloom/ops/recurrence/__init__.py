"""The classic recurrent cells over a sequence, whose state goes through a matrix at every token.

    elman      h_t = tanh(a_t + h_{t-1} W)                                            a_t = x_t W_in + b
    lstm       i, f, g, o = σ, σ, tanh, σ of a_t + h_{t-1} W
               c_t = f ∘ c_{t-1} + i ∘ g,   h_t = o ∘ tanh(c_t)
    gru        r, z = σ of (a_t + h_{t-1} W)_{r, z},   n = tanh(a_n + (r ∘ h_{t-1}) W_n)
               h_t = (1 - z) ∘ n + z ∘ h_{t-1}
    gru_after  the same, but n = tanh(a_n + r ∘ (h_{t-1} W_n + b_n))

Matrices are (outputs, inputs), as in torch's modules, with the gates stacked in the order above.

Source: Elman, Finding Structure in Time, 1990; Hochreiter and Schmidhuber, Long Short-Term Memory, 1997, with the
forget gate of Gers et al., 2000; Cho et al., arXiv:1406.1078, Eq. 5-8, and the variant of cuDNN and torch, whose reset
gate comes after the matrix. What differs from the first two papers is in `mixers/elman.py` and `mixers/lstm.py`.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from seqloom.core.autocast import without_autocast
from seqloom.core.graphs import capturing
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.checked import check_shapes
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.recurrence import kernel, looped, native, reference
from seqloom.ops.recurrence.initial_weights import orthogonal_

__all__ = ["elman", "gru", "gru_after", "lstm", "orthogonal_"]

STATES = {"elman": 1, "lstm": 2, "gru": 1, "gru_after": 1}


@check_shapes("elman")
def elman(
    x: Stream,
    w_in: Float[Tensor, "N D"],
    bias: Float[Tensor, " N"],
    w_state: Float[Tensor, "N N"],
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """The states h (B, T, N), in the dtype of x, and the state after the last token.

    `state` (B, N) is the state before the first token, None for zeros. With `lengths` (B,) a row has that many tokens,
    then padding; its last state is the one after its tokens. Computed in float32 or better, which is also the dtype of
    the last state. Differentiable twice in every argument. Raises ValueError where shapes do not agree. The same holds
    for the other cells.
    """
    y, (new_state,) = _read("elman", x, w_in, bias, (w_state,), _as_tuple(state), lengths)
    return y, new_state


@check_shapes("lstm", w_in="4*N D", bias="4*N", w_state="4*N N")
def lstm(
    x: Stream,
    w_in: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
    w_state: Float[Tensor, "G N"],
    state: tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T N"], tuple[Float[Tensor, "B N"], Float[Tensor, "B N"]]]:
    """The outputs h (B, T, N), and the state: h and the cells c. G = 4N, for i, f, g, o. See `elman`."""
    y, (h, c) = _read("lstm", x, w_in, bias, (w_state,), state, lengths)
    return y, (h, c)


@check_shapes("gru", w_in="3*N D", bias="3*N", w_state="3*N N")
def gru(
    x: Stream,
    w_in: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
    w_state: Float[Tensor, "G N"],
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """The GRU that resets the state before its matrix, for which torch has no kernel; G = 3N, for r, z, n.

    See `elman`.
    """
    y, (new_state,) = _read("gru", x, w_in, bias, (w_state,), _as_tuple(state), lengths)
    return y, new_state


@check_shapes("gru_after", w_in="3*N D", bias="3*N", w_state="3*N N")
def gru_after(
    x: Stream,
    w_in: Float[Tensor, "G D"],
    bias: Float[Tensor, " G"],
    w_state: Float[Tensor, "G N"],
    inner: Float[Tensor, " N"],
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B N"]]:
    """The GRU that resets the product of state and matrix; `inner` (N,) is b_n, its bias. See `gru`."""
    y, (new_state,) = _read("gru_after", x, w_in, bias, (w_state, inner), _as_tuple(state), lengths)
    return y, new_state


def choose_backend(cell: str, x: Tensor) -> str:
    """The fastest backend, as measured: for the LSTM in float32 on a CPU that is torch's kernel, which is oneDNN's.

    In a captured graph it is C, or else the reference, whose loop a compiler unrolls.
    """
    if x.shape[1] == 1:
        return "reference"
    if capturing():
        in_c = _fits_c(cell, x) and not torch.compiler.is_exporting() and native.KERNEL.available()
        return "native" if in_c else "reference"
    fused = x.device.type == "cuda"
    if x.device.type == "cpu":
        fused = cell == "lstm" and x.dtype == torch.float32 and torch.backends.mkldnn.is_available()
    if fused and _has_kernel(cell, x):
        return "kernel"
    return "native" if _fits_c(cell, x) and native.KERNEL.available() else "looped"


def _has_kernel(cell: str, x: Tensor) -> bool:
    return cell != "gru"


def _fits_c(cell: str, x: Tensor) -> bool:
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def _read(
    cell: str,
    x: Tensor,
    w_in: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, ...],
    state: tuple[Tensor, ...] | None,
    lengths: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """The outputs and the state after them of one cell, after its arguments are checked; see `elman`."""
    (B, T, _), N = x.shape, weights[0].shape[1]
    wide = torch.promote_types(x.dtype, torch.float32)
    if state is None:
        state = tuple(x.new_zeros(B, N, dtype=wide) for _ in range(STATES[cell]))
    kind, x, w_in, bias = x.dtype, x.to(wide), w_in.to(wide), bias.to(wide)
    weights, state = tuple(tensor.to(wide) for tensor in weights), tuple(tensor.to(wide) for tensor in state)
    if B * T == 0:
        return x.new_zeros(B, T, N, dtype=kind), tuple(tensor.clone() for tensor in state)
    run = OP[OP.choose(cell, x)]
    with without_autocast(x.device):
        y, new_state = run(cell, x, w_in, bias, weights, state, lengths)
    return y.to(kind), new_state


def _as_tuple(state: Tensor | None) -> tuple[Tensor, ...] | None:
    return None if state is None else (state,)


def _example_inputs(draw: Draw, B: int, T: int, gates: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    D, N = CHANNELS, CHANNELS // 4
    return draw(B, T, D), draw(gates * N, D) / 8, draw(gates * N), draw(gates * N, N) / 4


def _elman(draw: Draw, B: int, T: int) -> tuple[Tensor, ...]:
    return elman(*_example_inputs(draw, B, T, 1), draw(B, CHANNELS // 4))


def _lstm(draw: Draw, B: int, T: int) -> tuple[Tensor, ...]:
    y, (h, c) = lstm(*_example_inputs(draw, B, T, 4), (draw(B, CHANNELS // 4), draw(B, CHANNELS // 4)))
    return y, h, c


def _gru(draw: Draw, B: int, T: int) -> tuple[Tensor, ...]:
    return gru(*_example_inputs(draw, B, T, 3), draw(B, CHANNELS // 4))


def _gru_after(draw: Draw, B: int, T: int) -> tuple[Tensor, ...]:
    return gru_after(*_example_inputs(draw, B, T, 3), draw(CHANNELS // 4), draw(B, CHANNELS // 4))


OP = Op(
    "recurrence",
    {
        "reference": Backend(reference.read),
        "looped": Backend(looped.read),
        "kernel": Backend(kernel.read, fits=_has_kernel),
        "native": Backend(native.read, native.KERNEL.unavailable, _fits_c),
    },
    rule=choose_backend,
    examples=(_elman, _lstm, _gru, _gru_after),
    price={
        "elman": reference.elman_price,
        "lstm": reference.lstm_price,
        "gru": reference.gru_price,
    },
)

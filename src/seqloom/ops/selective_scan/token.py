"""One token of the convolution and of the scan, by one direct call of C each, for generation.

With `reuse` the given state is overwritten. Where C may not be called directly (gradients, a graph, another backend),
the functions for sequences are called.
"""

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.core.state import Length
from seqloom.ops import native
from seqloom.ops.selective_scan import OP, States, convolution, selective, signature
from seqloom.ops.selective_scan.convolution import Bias, Taps, Window
from seqloom.ops.selective_scan.kernels import CONVOLVE, STEP, unseen

CONVOLVED, SCANNED = convolution.signature("convolve_token", ""), signature("scan_token", "")


def convolve_token(
    x: Token, taps: Taps, bias: Bias, window: Window, length: Length, reuse: bool
) -> tuple[Token, Window]:
    """The output of one token x (B, D) after `length` tokens, the last of which are in the window; the new window."""
    if not (_quick(x, taps, window, optional=(bias,)) and window.is_contiguous() and unseen(x, taps, bias, window)):
        CONVOLVED.bind(x, taps, bias, window, length.tokens)
        y, new_window = convolution.after_one(x, taps, bias, window, length)
        return y, window.copy_(new_window.detach()) if reuse else new_window
    y, new_buffer = x.new_empty(x.shape), None if reuse else window.new_empty(window.shape)
    window_inputs = (window, bias, None, None, length.tokens)
    CONVOLVE(x, None, taps, None, None, *window_inputs, y, new_buffer, threads=native.threads(x.numel()))
    return y, window if new_buffer is None else new_buffer


def scan_token(
    u: Token,
    delta: Token,
    log_rate: Float[Tensor, "D N"],
    B: Float[Tensor, "B N"],
    C: Float[Tensor, "B N"],
    state: States,
    bias: Float[Tensor, " D"],
    skip: Float[Tensor, " D"],
    gate: Token | None,
    reuse: bool,
) -> tuple[Token, States]:
    """`selective` of one token: y (B, D), and the state after it."""
    of = (u, delta, log_rate, B, C, state, bias, skip, gate)
    if not (_quick(*of[:6], optional=of[6:]) and state.is_contiguous() and unseen(*of)):
        SCANNED.bind(*of, None)
        x, width, b, c = (tensor[:, None] for tensor in (u, delta, B, C))
        past = None if gate is None else gate[:, None]
        y, new_state = selective(x, width, log_rate, b, c, state, bias=bias, skip=skip, gate=past)
        return y[:, 0], state.copy_(new_state.detach()) if reuse else new_state
    y, new_buffer = u.new_empty(u.shape), None if reuse else state.new_empty(state.shape)
    STEP(*of, None, y, new_buffer, threads=native.threads(state.numel()))
    return y, state if new_buffer is None else new_buffer


def _quick(x: Tensor, *rest: Tensor, optional: tuple[Tensor | None, ...] = ()) -> bool:
    """Whether C supports these tensors, and no other backend is forced."""
    alike = native.alike(x, *rest, optional=optional)
    return alike and x.dtype in native.WORD and x.numel() > 0 and OP.choose(x) == "native"

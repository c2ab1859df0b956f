"""One token of the convolution and of the scan, at the price of a call: what generation repeats.

With `reuse` the state that was given is written into. Where the C is not called as it is (gradients, a graph, another
backend), the functions are those of whole sequences.
"""

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Token
from seqloom.ops import native
from seqloom.ops.selective_scan import States, choice, convolution, selective
from seqloom.ops.selective_scan.convolution import Taps, Window
from seqloom.ops.selective_scan.kernels import CONVOLVE, KIND, STEP, unseen


def convolve_token(
    x: Token, taps: Taps, bias: Float[Tensor, " D"], window: Window, seen: Lengths, reuse: bool
) -> tuple[Token, Window]:
    """One token x (B, D) after those in the window, of which `seen` (B,) were read; and the window after it."""
    _fits(window, (len(x), len(taps) - 1, x.shape[1]))
    if not (_alike(x, taps, bias, window) and choice(x) == "native" and unseen(x, taps, bias, window)):
        y, after = convolution.after_one(x, taps, bias, window, seen)
        return y, window.copy_(after.detach()) if reuse else after
    y = x.new_empty(x.shape)
    after = window if reuse and window.is_contiguous() else window.new_empty(window.shape)
    rest = (window, bias, None, None, None)
    CONVOLVE(x, None, taps, None, None, *rest, y, after, threads=native.threads(x.numel()))
    return y, after


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
    _fits(state, (len(u), *log_rate.shape))
    of = (u, delta, log_rate, B, C, state, bias, skip, gate)
    if not (_alike(*of) and choice(u) == "native" and unseen(*of)):
        one, width, b, c = (each[:, None] for each in (u, delta, B, C))
        past = None if gate is None else gate[:, None]
        y, after = selective(one, width, log_rate, b, c, state, bias=bias, skip=skip, gate=past)
        return y[:, 0], state.copy_(after.detach()) if reuse else after
    y, after = u.new_empty(u.shape), state if reuse and state.is_contiguous() else state.new_empty(state.shape)
    STEP(*of, None, y, after, threads=native.threads(u.numel() * log_rate.shape[1]))
    return y, after


def _fits(state: Tensor, shape: tuple[int, ...]) -> None:
    if state.shape != shape:  # the C would read behind its end
        raise ValueError(f"the state must be {shape}, not {tuple(state.shape)}: it is another mixer's")


def _alike(x: Tensor, *rest: Tensor | None) -> bool:
    kind = x.dtype
    return x.numel() > 0 and kind in KIND and all(each is None or each.dtype == kind for each in rest)

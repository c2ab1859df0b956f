"""One token of the scan by one direct call of C, for generation.

With `reuse` the given state is overwritten. Where C may not be called directly (gradients, a graph, another backend),
`selective` is called.
"""

from jaxtyping import Float
from torch import Tensor

from seqloom.core.shapes import Token
from seqloom.ops import native
from seqloom.ops.checked import checked
from seqloom.ops.selective_scan import OP, States, selective
from seqloom.ops.selective_scan.kernels import STEP, callable_directly


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
    inputs = (u, delta, log_rate, B, C, state, bias, skip, gate)
    if not (_quick(*inputs[:6], optional=inputs[6:]) and state.is_contiguous() and callable_directly(*inputs)):
        _require_fit(*inputs)
        u, delta, B, C = (tensor[:, None] for tensor in (u, delta, B, C))  # sequences of one token
        gate = None if gate is None else gate[:, None]
        y, new_state = selective(u, delta, log_rate, B, C, state, bias=bias, skip=skip, gate=gate)
        return y[:, 0], state.copy_(new_state.detach()) if reuse else new_state
    y, new_buffer = u.new_empty(u.shape), None if reuse else state.new_empty(state.shape)
    STEP(*inputs, None, y, new_buffer, threads=native.threads(state.numel()))
    return y, state if new_buffer is None else new_buffer


@checked("scan_token", least="N")
def _require_fit(
    u: Token,
    delta: Token,
    log_rate: Float[Tensor, "D N"],
    B: Float[Tensor, "B N"],
    C: Float[Tensor, "B N"],
    state: States | None,
    bias: Float[Tensor, " D"] | None,
    skip: Float[Tensor, " D"] | None,
    gate: Token | None,
) -> None:
    """ValueError or TypeError unless the tensors of a token fit."""


def _quick(x: Tensor, *rest: Tensor, optional: tuple[Tensor | None, ...] = ()) -> bool:
    """Whether C supports these tensors, and no other backend is forced."""
    same_dtype = native.alike(x, *rest, optional=optional)
    return same_dtype and x.dtype in native.WORD and x.numel() > 0 and OP.choose(x) == "native"

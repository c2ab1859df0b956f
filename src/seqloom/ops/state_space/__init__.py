"""Linear state-space models x' = A x + B u, y = C x: initial A and B, discretization, and outputs over a sequence.

    x_t = Ā x_{t-1} + B̄ u_t,   y_t = C x_t                  x_{-1} = 0;  Ā, B̄ from A, B and a step Δ: see `discretise`

    joint      one system over all channels: A (N, N), B (N, D), C (D, N), one step
    single     a copy of one system for each channel, each with its step and M outputs: A (N, N), B (N,), C (D, M, N)
    low_rank   as `single` with M = 1 and A = Λ - P P*, bilinear; of pairs of conjugates one half is given

The direct term D u is computed by the caller. Source: seed 004, Eq. 24-31; Gu et al., arXiv:2110.13985 (`single`)
and arXiv:2111.00396 (`low_rank`, with P P* for P Q*).
"""

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.core.autocast import without_autocast
from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.state_space import generating, krylov, reference, scan
from seqloom.ops.state_space.discretise import Method

System: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""returns the weights of a model; the reference calls it at each token, so that a step has the price of its token"""
Model: TypeAlias = Literal["joint", "single", "low_rank"]
Shapes: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]
"""the shapes of a row's state and of each weight"""


def run_joint(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Float[Tensor, "B N"]]:
    """The outputs y (B, T, D), in the dtype of u, and the state x (B, N) after the last token.

    `system()` returns A (N, N), B (N, D), C (D, N) and Δ (). `state` is x before the first token, None for zeros. With
    `lengths` (B,) a row has that many tokens, then padding, and its state is the one after its tokens. Computed in
    float32 or better, which is also the dtype of the state. Differentiable twice in every tensor. Raises ValueError
    where shapes do not agree. The same holds for the other functions; `outputs` returns y alone.

    Backends: `reference` token by token, `parallel` in log2 T passes.
    """
    return _run_piece("joint", u, system, (method,), state, lengths)


def single(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B D N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T D M"], Float[Tensor, "B D N"]]:
    """The outputs y (B, T, D, M) and the state x (B, D, N); see `run_joint`.

    `system()` returns A (N, N), B (N,), C (D, M, N) and Δ (D,). `parallel` is a lag sum with the kernel as taps.
    """
    return _run_piece("single", u, system, (method,), state, lengths)


def low_rank(
    u: Stream,
    system: System,
    state: Complex[Tensor, "B D H"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Complex[Tensor, "B D H"]]:
    """The outputs y = 2 Re(C x) (B, T, D) and the state x (B, D, N/2), half of each pair of conjugates; see
    `run_joint`.

    `system()` returns Λ, P, B (N/2,) and C (D, N/2), all complex, and Δ (D,). No eigenvalue may be 0; with real parts
    of at most 0 states do not grow. `parallel` is a lag sum with the kernel as taps.
    """
    return _run_piece("low_rank", u, system, (), state, lengths)


def outputs(model: Model, u: Stream, system: System, method: Method | None = None) -> Float[Tensor, "B T ..."]:
    """The outputs of a model from a zero state, without the state after them, as in training."""
    y, _ = _read(model, u, system, () if method is None else (method,), None, None)
    return y


def _run_piece(
    model: Model, u: Tensor, system: System, method: tuple[Any, ...], state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The outputs, and the state after them, from zeros if no state is given."""
    if state is None:
        weights = system()
        state_shape, _ = SHAPES[model](weights, u.shape[2])
        wide = torch.promote_types(u.dtype, torch.float32)
        state = torch.zeros(len(u), *state_shape, dtype=_wide(weights[0], wide), device=u.device)
    y, new_state = _read(model, u, system, method, state, lengths)
    assert new_state is not None
    return y, new_state


def _read(
    model: Model, u: Tensor, system: System, method: tuple[Any, ...], state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The outputs, and the state after them if one is given. `method` is empty for `low_rank`."""
    kind, wide = u.dtype, torch.promote_types(u.dtype, torch.float32)

    def checked_system() -> tuple[Tensor, ...]:
        weights = system()
        state_shape, weight_shapes = SHAPES[model](weights, u.shape[2])
        return _check_weights(u, state, state_shape, *zip(weights, weight_shapes, strict=True))

    if u.shape[1] == 0:  # no output, in the shape and dtype of those of one token
        token = u.new_zeros(len(u), 1, u.shape[2], dtype=wide)
        y, _ = OP["reference"][model](token, checked_system, *method, None, None)
        return y[:, :0].to(kind), None if state is None else state.clone()
    if lengths is not None:
        u = torch.where(within(lengths, u.shape[1])[:, :, None], u, 0.0)
    run = OP[OP.choose(u)][model]
    before = None if state is None else state.to(_wide(state, wide))
    with without_autocast(u.device):
        y, new_state = run(u.to(wide), checked_system, *method, before, lengths)
    return y.to(kind), new_state


def _shapes_joint(weights: tuple[Tensor, ...], D: int) -> Shapes:
    N = len(weights[0])
    return (N,), ((N, N), (N, D), (D, N), ())


def _shapes_single(weights: tuple[Tensor, ...], D: int) -> Shapes:
    N, M = len(weights[0]), weights[2].shape[1]
    return (D, N), ((N, N), (N,), (D, M, N), (D,))


def _shapes_low_rank(weights: tuple[Tensor, ...], D: int) -> Shapes:
    H = len(weights[0])
    return (D, H), ((H,), (H,), (H,), (D, H), (D,))


SHAPES: dict[Model, Callable[[tuple[Tensor, ...], int], Shapes]] = {
    "joint": _shapes_joint,
    "single": _shapes_single,
    "low_rank": _shapes_low_rank,
}
"""by model, a function from weights and the number of channels"""


def choose_backend(u: Tensor) -> str:
    """The faster backend: `reference` for one token, else `parallel`."""
    return "reference" if u.shape[1] == 1 else "parallel"


def _check_weights(
    u: Tensor, state: Tensor | None, state_shape: tuple[int, ...], *weights: tuple[Tensor, tuple[int, ...]]
) -> tuple[Tensor, ...]:
    """The weights, each given with the shape that it must have, in the dtype of the sums; ValueError for another shape.

    The shape (B, *state_shape) of the state is checked too.
    """
    checked = weights if state is None else (*weights, (state, (len(u), *state_shape)))
    for tensor, shape in checked:
        if tensor.shape != shape:
            raise ValueError(
                f"weights and state do not fit u {tuple(u.shape)}: {tuple(tensor.shape)} should be {shape}"
            )
    wide = torch.promote_types(u.dtype, torch.float32)
    return tuple(tensor.to(_wide(tensor, wide)) for tensor, _ in weights)


def _wide(x: Tensor, wide: torch.dtype) -> torch.dtype:
    """`wide`, or for a complex x the complex dtype of its precision."""
    return torch.promote_types(wide, torch.complex64) if x.is_complex() else wide


def _joint_system(draw: Draw) -> System:
    step = draw().sigmoid()
    system = (draw(8, 8) / 8 - torch.eye(8), draw(8, CHANNELS), draw(CHANNELS, 8), step)
    return lambda: system


def _single_system(draw: Draw) -> System:
    step = draw(CHANNELS).sigmoid()
    system = (draw(8, 8) / 8 - torch.eye(8), draw(8), draw(CHANNELS, 2, 8), step)
    return lambda: system


def _low_rank_system(draw: Draw) -> System:
    eigenvalues = torch.complex(-draw(4).exp(), draw(4))
    p, b, c = (torch.complex(draw(*shape), draw(*shape)) for shape in ((4,), (4,), (CHANNELS, 4)))
    step = draw(CHANNELS).sigmoid()
    return lambda: (eigenvalues, p, b, c, step)


def _draw_joint(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("joint", draw(B, T, CHANNELS), _joint_system(draw), "bilinear")


def _single(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("single", draw(B, T, CHANNELS), _single_system(draw), "bilinear")


def _low_rank(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("low_rank", draw(B, T, CHANNELS), _low_rank_system(draw))


OP = Op(
    "state_space",
    {
        "reference": Backend(
            {"joint": reference.run_joint, "single": reference.single, "low_rank": reference.low_rank},
        ),
        "parallel": Backend(
            {"joint": scan.run_joint, "single": krylov.single, "low_rank": generating.low_rank}, plain=True
        ),
    },
    rule=choose_backend,
    examples=(_draw_joint, _single, _low_rank),
    price={
        "joint": reference.joint_price,
        "single": reference.single_price,
        "low_rank": reference.low_rank_price,
    },
)

"""Linear state-space models x' = A x + B u, y = C x: initial A and B, discretization, and outputs over a sequence.

    x_t = Ā x_{t-1} + B̄ u_t,   y_t = C x_t                  x_{-1} = 0;  Ā, B̄ from A, B and a step Δ: see `discretise`

    joint      one system over all channels: A (N, N), B (N, D), C (D, N), one step
    single     a copy of one system for each channel, each with its step and M outputs: A (N, N), B (N,), C (D, M, N)
    low_rank   as `single` with M = 1 and A = Λ - P P*, bilinear; of pairs of conjugates one half is given

The direct term D u is computed by the caller. Source: seed 004, Eq. 24-31; Gu et al., arXiv:2110.13985 (`single`)
and arXiv:2111.00396 (`low_rank`, with P P* for P Q*).
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, Literal, TypeAlias

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.state_space import generating, krylov, reference, scan
from seqloom.ops.state_space.discretise import Method

System: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""gives the weights of a model; the reference asks for them at each token, so that a step costs what its token costs"""


Model: TypeAlias = Literal["joint", "single", "low_rank"]
Shapes: TypeAlias = tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]


def joint(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Float[Tensor, "B N"]]:
    """The outputs y (B, T, D), in the dtype of u, and the state x (B, N) after the last token.

    `system()` gives A (N, N), B (N, D), C (D, N) and Δ (). `state` is x before the first token, None for zeros. With
    `lengths` (B,) a row has so many tokens, then padding, and its state is that after its tokens. The state is of
    float32 at least, in which all is computed. All tensors have first and second derivatives. Raises ValueError where
    shapes do not agree. The other functions have the same rules; `outputs` returns y alone.

    Backends: `reference` token by token, `parallel` in log2 T passes.
    """
    return _streamed("joint", u, system, (method,), state, lengths)


def single(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B D N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T D M"], Float[Tensor, "B D N"]]:
    """The outputs y (B, T, D, M) and the state x (B, D, N); see `joint`.

    `system()` gives A (N, N), B (N,), C (D, M, N) and Δ (D,). `parallel` is a lag sum under the kernel.
    """
    return _streamed("single", u, system, (method,), state, lengths)


def low_rank(
    u: Stream,
    system: System,
    state: Complex[Tensor, "B D H"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Complex[Tensor, "B D H"]]:
    """The outputs y = 2 Re(C x) (B, T, D) and the state x (B, D, N/2), half of each pair of conjugates; see `joint`.

    `system()` gives Λ, P, B (N/2,) and C (D, N/2), all complex, and Δ (D,). No eigenvalue may be 0; with real parts of
    at most 0 nothing grows. `parallel` is a lag sum under the kernel.
    """
    return _streamed("low_rank", u, system, (), state, lengths)


def outputs(model: Model, u: Stream, system: System, method: Method | None = None) -> Float[Tensor, "B T ..."]:
    """The outputs of a model from a zero state, without the state after them, as in training."""
    y, _ = _read(model, u, system, () if method is None else (method,), None, None)
    return y


def _streamed(
    model: Model, u: Tensor, system: System, how: tuple[Any, ...], state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    if state is None:
        weights = system()
        states, _ = SHAPES[model](weights, u.shape[2])
        wide = torch.promote_types(u.dtype, torch.float32)
        state = torch.zeros(len(u), *states, dtype=_wide(weights[0], wide), device=u.device)
    y, new_state = _read(model, u, system, how, state, lengths)
    assert new_state is not None
    return y, new_state


def _read(
    model: Model, u: Tensor, system: System, how: tuple[Any, ...], state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """The outputs, and the state after them if one is given."""
    kind, wide = u.dtype, torch.promote_types(u.dtype, torch.float32)

    def fitting() -> tuple[Tensor, ...]:
        weights = system()
        states, shapes = SHAPES[model](weights, u.shape[2])
        return _fit(u, state, states, *zip(weights, shapes, strict=True))

    if u.shape[1] == 0:  # the shape and dtype of a token's output
        y, _ = OP["reference"][model](u.new_zeros(len(u), 1, u.shape[2], dtype=wide), fitting, *how, None, None)
        return y[:, :0].to(kind), None if state is None else state.clone()
    run = OP[OP.choose(u)][model]
    before = None if state is None else state.to(_wide(state, wide))
    with _unrounded(u.device.type):
        y, new_state = run(u.to(wide), fitting, *how, before, lengths)
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
"""by model, a function from weights and channels to the shapes of a row's state and of each weight"""


def by_size(u: Tensor) -> str:
    """The faster backend: `reference` for one token, else `parallel`."""
    return "reference" if u.shape[1] == 1 else "parallel"


def _fit(
    u: Tensor, state: Tensor | None, states: tuple[int, ...], *weights: tuple[Tensor, tuple[int, ...]]
) -> tuple[Tensor, ...]:
    """The weights in the dtype of the sums; ValueError for a wrong shape."""
    wanted = weights if state is None else (*weights, (state, (len(u), *states)))
    for tensor, shape in wanted:
        if tensor.shape != shape:
            raise ValueError(
                f"weights and state do not fit u {tuple(u.shape)}: {tuple(tensor.shape)} should be {shape}"
            )
    wide = torch.promote_types(u.dtype, torch.float32)
    return tuple(tensor.to(_wide(tensor, wide)) for tensor, _ in weights)


def _wide(x: Tensor, wide: torch.dtype) -> torch.dtype:
    return torch.promote_types(wide, torch.complex64) if x.is_complex() else wide


def _unrounded(device: str) -> AbstractContextManager[object]:
    """Turns autocast off, which would round the state, and so all earlier tokens, at every token."""
    return torch.autocast(device, enabled=False) if device in ("cpu", "cuda") else nullcontext()


def _dense(draw: Draw, *C: int) -> System:
    B = (8, CHANNELS) if C == (CHANNELS, 8) else (8,)
    step = draw().sigmoid() if C == (CHANNELS, 8) else draw(CHANNELS).sigmoid()
    system = (draw(8, 8) / 8 - torch.eye(8), draw(*B), draw(*C), step)
    return lambda: system


def _conjugates(draw: Draw) -> System:
    eigenvalues = torch.complex(-draw(4).exp(), draw(4))
    p, b, c = (torch.complex(draw(*shape), draw(*shape)) for shape in ((4,), (4,), (CHANNELS, 4)))
    step = draw(CHANNELS).sigmoid()
    return lambda: (eigenvalues, p, b, c, step)


def _joint(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("joint", draw(B, T, CHANNELS), _dense(draw, CHANNELS, 8), "bilinear")


def _single(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("single", draw(B, T, CHANNELS), _dense(draw, CHANNELS, 2, 8), "bilinear")


def _low_rank(draw: Draw, B: int, T: int) -> Tensor:
    return outputs("low_rank", draw(B, T, CHANNELS), _conjugates(draw))


def _joint_on(draw: Draw, B: int, T: int) -> Any:
    return partial(joint, system=_dense(draw, CHANNELS, 8), method="bilinear"), (draw(B, T, CHANNELS),)


def _single_on(draw: Draw, B: int, T: int) -> Any:
    return partial(single, system=_dense(draw, CHANNELS, 2, 8), method="bilinear"), (draw(B, T, CHANNELS),)


def _low_rank_on(draw: Draw, B: int, T: int) -> Any:
    return partial(low_rank, system=_conjugates(draw)), (draw(B, T, CHANNELS),)


OP = Op(
    "state_space",
    {
        "reference": Backend(
            {"joint": reference.joint, "single": reference.single, "low_rank": reference.low_rank},
        ),
        "parallel": Backend({"joint": scan.joint, "single": krylov.single, "low_rank": generating.low_rank}),
    },
    rule=by_size,
    examples=(_joint, _single, _low_rank),
    price={
        "joint": reference.joint_price,
        "single": reference.single_price,
        "low_rank": reference.low_rank_price,
    },
    streamed=(_joint_on, _single_on, _low_rank_on),
)

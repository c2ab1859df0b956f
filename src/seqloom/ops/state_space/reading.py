"""The three state-space models over a sequence, from a state, and the choice of how: see `seqloom.ops.state_space`."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeAlias

import torch
from jaxtyping import Complex, Float
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.state_space import generating, krylov, price, reference, scan
from seqloom.ops.state_space.discretise import Method

System: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""gives the weights of a model; the reference asks for them at each token, so that a step costs what its token costs"""


def joint(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Float[Tensor, "B N"] | None]:
    """The outputs y (B, T, D), in the number type of u, and the state x (B, N) after the last token.

    `system()` gives A (N, N), B (N, D), C (D, N) and Δ (). `state` is x before the first token; where it is None it is
    zeros, and no state comes back. With `lengths` (B,) a row holds so many tokens, then padding, and its state is that
    after them. Computed in float32 at least, in which the state comes. Differentiable in everything, twice too. Raises
    ValueError where shapes do not agree. All this holds for the others too.

    Backends: `reference` token by token, `parallel` in log2 T passes.
    """

    def given() -> tuple[Tensor, ...]:
        A, B, C, step = system()
        N, D = len(A), u.shape[-1]
        return _fit(u, state, (N,), (A, (N, N)), (B, (N, D)), (C, (D, N)), (step, ()))

    return _read("joint", u, given, (method,), state, lengths)


def single(
    u: Stream,
    system: System,
    method: Method,
    state: Float[Tensor, "B D N"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Float[Tensor, "B T D M"], Float[Tensor, "B D N"] | None]:
    """The outputs y (B, T, D, M) and the state x (B, D, N); see `joint`.

    `system()` gives A (N, N), B (N,), C (D, M, N) and Δ (D,). `parallel` is a lag sum under the kernel.
    """

    def given() -> tuple[Tensor, ...]:
        A, B, C, step = system()
        N, M, D = len(A), C.shape[1], u.shape[-1]
        return _fit(u, state, (D, N), (A, (N, N)), (B, (N,)), (C, (D, M, N)), (step, (D,)))

    return _read("single", u, given, (method,), state, lengths)


def low_rank(
    u: Stream,
    system: System,
    state: Complex[Tensor, "B D H"] | None = None,
    *,
    lengths: Lengths | None = None,
) -> tuple[Stream, Complex[Tensor, "B D H"] | None]:
    """The outputs y = 2 Re(C x) (B, T, D) and the state x (B, D, N/2), half of each pair of conjugates; see `joint`.

    `system()` gives Λ, P, B (N/2,) and C (D, N/2), all complex, and Δ (D,). No eigenvalue may be 0; with real parts of
    at most 0 nothing grows. `parallel` is a lag sum under the kernel.
    """

    def given() -> tuple[Tensor, ...]:
        eigenvalues, P, B, C, step = system()
        H, D = len(eigenvalues), u.shape[-1]
        return _fit(u, state, (D, H), (eigenvalues, (H,)), (P, (H,)), (B, (H,)), (C, (D, H)), (step, (D,)))

    return _read("low_rank", u, given, (), state, lengths)


def _read(
    model: str,
    u: Tensor,
    system: System,
    how: tuple[Any, ...],
    state: Tensor | None,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor | None]:
    kind, exact = u.dtype, torch.promote_types(u.dtype, torch.float32)
    if u.shape[1] == 0:  # what one token would make, but for the token
        y, _ = OP["reference"][model](u.new_zeros(len(u), 1, u.shape[2], dtype=exact), system, *how, None, None)
        return y[:, :0].to(kind), None if state is None else state.clone()
    run = OP[OP.choose(u)][model]
    before = None if state is None else state.to(_wide(state, exact))
    with _unrounded(u.device.type):
        y, after = run(u.to(exact), system, *how, before, lengths)
    return y.to(kind), after


def by_size(u: Tensor) -> str:
    """The faster backend: one token is read as it is written."""
    return "reference" if u.shape[1] == 1 else "parallel"


def _fit(
    u: Tensor, state: Tensor | None, states: tuple[int, ...], *weights: tuple[Tensor, tuple[int, ...]]
) -> tuple[Tensor, ...]:
    """The weights in the number type of the sums; ValueError where a shape is not the wanted one."""
    wanted = weights if state is None else (*weights, (state, (len(u), *states)))
    for each, shape in wanted:
        if each.shape != shape:
            raise ValueError(f"weights and state do not fit u {tuple(u.shape)}: {tuple(each.shape)} should be {shape}")
    exact = torch.promote_types(u.dtype, torch.float32)
    return tuple(each.to(_wide(each, exact)) for each, _ in weights)


def _wide(x: Tensor, exact: torch.dtype) -> torch.dtype:
    return torch.promote_types(exact, torch.complex64) if x.is_complex() else exact


def _unrounded(device: str) -> AbstractContextManager[object]:
    """Autocast would round the state at each token, and with it everything that was ever read."""
    return torch.autocast(device, enabled=False) if device in ("cpu", "cuda") else nullcontext()


def _joint(draw: Draw, B: int, T: int) -> Tensor:
    system = (draw(8, 8) / 8 - torch.eye(8), draw(8, CHANNELS), draw(CHANNELS, 8), draw().sigmoid())
    return joint(draw(B, T, CHANNELS), lambda: system, "bilinear")[0]


def _single(draw: Draw, B: int, T: int) -> Tensor:
    system = (draw(8, 8) / 8 - torch.eye(8), draw(8), draw(CHANNELS, 2, 8), draw(CHANNELS).sigmoid())
    return single(draw(B, T, CHANNELS), lambda: system, "bilinear")[0]


def _low_rank(draw: Draw, B: int, T: int) -> Tensor:
    eigenvalues = torch.complex(-draw(4).exp(), draw(4))
    p, b, c = (torch.complex(draw(*shape), draw(*shape)) for shape in ((4,), (4,), (CHANNELS, 4)))
    step = draw(CHANNELS).sigmoid()
    return low_rank(draw(B, T, CHANNELS), lambda: (eigenvalues, p, b, c, step))[0]


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
    price=price,
)

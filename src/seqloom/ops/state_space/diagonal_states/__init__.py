"""A diagonal linear state space per channel, with N complex states, one input and one output.

    h_t = λ̄ h_{t-1} + u_t,    y_t = 2 Re Σ_n w_n h_{t,n}           λ̄, w and h: N numbers per channel; h_0 is the state

This is the sum over lags y_t = Σ_l K_l u_{t-l} with K_l = 2 Re Σ_n w_n λ̄_n^l, plus the contribution of the state. λ̄
is given as its logarithm, Δλ, so that λ̄^l = e^{l Δλ} is accurate for any l. 2 Re adds the conjugate states, which are
not stored.

Source: Gu et al., On the Parameterization and Initialization of Diagonal State Space Models, arXiv:2206.11893, Eq. 2-4,
with B folded into w. Seed 004 does not have it.
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from jaxtyping import Complex
from torch import Tensor

from seqloom.core.shapes import Lengths, Stream
from seqloom.ops.lag_sum import spectral
from seqloom.ops.op import CHANNELS, Backend, Draw, Op
from seqloom.ops.past.pack import within
from seqloom.ops.state_space.diagonal_states import blocks, convolved, reference
from seqloom.ops.state_space.diagonal_states.powers import kernel

__all__ = ["States", "System", "empty", "filter_sequence", "kernel", "respond"]

States: TypeAlias = Complex[Tensor, "B D N"]
System: TypeAlias = Callable[[], tuple[Tensor, Tensor]]
"""() → the logarithms Δλ of λ̄, and w"""


def empty(batch: int, dim: int, states: int, dtype: torch.dtype, device: torch.device | None = None) -> States:
    """The state before the first token: zeros, complex, in float32 at least."""
    complex_dtype = torch.promote_types(dtype, torch.complex64)
    return torch.zeros(batch, dim, states, dtype=complex_dtype, device=device)


def respond(
    u: Stream, system: System, state: States | None = None, *, lengths: Lengths | None = None
) -> tuple[Stream, States]:
    """The outputs y (B, T, D) of u (B, T, D), and the state after the last token; no `state` is zeros.

    `system()` returns Δλ, (D, N) or, where all channels share them, (N,), and w (D, N), both complex. It is called
    once, by `reference` once per token, so that a step has the same price as a token of a sequence. With `lengths` (B,)
    a row has that many tokens, then padding; its state is the one after its tokens. Computed in the dtype of w. All
    backends are differentiable twice in every argument; `reference` and `blocks` are exactly causal, `convolved` as far
    as `seqloom.ops.lag_sum` is. Raises ValueError where shapes do not agree.
    """
    rates, weights = _check_system(u, system, state)
    initial = _zero_state(u, weights) if state is None else state.to(weights.dtype)
    if u.numel() == 0:
        return u.clone(), initial.clone()
    inputs = u.to(weights.real.dtype)
    if lengths is not None:
        real = within(lengths, u.shape[1])
        inputs = torch.where(real[:, :, None], inputs, 0.0)
    backend = OP.choose(choose_backend(u.shape[1], rates))
    per_token = (system,) if backend == "reference" else ()
    y, new_state = OP[backend].respond(inputs, rates, weights, initial, lengths, *per_token)
    if lengths is not None:
        new_state = torch.where((lengths > 0)[:, None, None], new_state, initial)
    return y.to(u.dtype), new_state


def filter_sequence(u: Stream, system: System) -> Stream:
    """The outputs of `respond` from a zero state, without the state after them, as in training."""
    rates, weights = _check_system(u, system, None)
    if u.numel() == 0:
        return u.clone()
    backend = OP.choose(at_once(u, rates))
    inputs = u.to(weights.real.dtype)
    if backend == "reference":
        y, _ = reference.respond(inputs, rates, weights, _zero_state(u, weights), None, system)
    else:
        y = OP[backend].filter_sequence(inputs, rates, weights)
    return y.to(u.dtype)


def choose_backend(T: int, rates: Tensor) -> str:
    """The fastest backend for outputs and state of T tokens under rates (D, N) or (N,), as measured (docs/log.md)."""
    if T <= 2:
        return "reference"
    shared = rates.ndim == 1  # rates that all channels share have few powers, so sums take most of the time
    return "convolved" if shared and len(rates) > 64 and T > 16 else "blocks"


def at_once(u: Stream, rates: Tensor) -> str:
    """The fastest backend for outputs without a state: a long convolution, whose transforms are in C (docs/log.md)."""
    T = u.shape[1]
    if u.device.type != "cpu" or T < 16:
        return choose_backend(T, rates)
    return "blocks" if T >= 2048 and rates.shape[-1] <= 32 and spectral.unavailable() else "convolved"


def _zero_state(u: Tensor, weights: Tensor) -> Tensor:
    return torch.zeros(len(u), *weights.shape, dtype=weights.dtype, device=u.device)


def _check_system(u: Tensor, system: System, state: Tensor | None) -> tuple[Tensor, Tensor]:
    """The rates and weights of the system. ValueError where shapes do not agree."""
    rates, weights = system()
    D, N = weights.shape
    if u.ndim != 3 or u.shape[2] != D:
        raise ValueError(f"inputs must be (B, T, {D}) for weights {(D, N)}, not {tuple(u.shape)}")
    if tuple(rates.shape) not in ((D, N), (N,)):
        raise ValueError(f"rates must be {(D, N)} or {(N,)} for weights {(D, N)}, not {tuple(rates.shape)}")
    if state is not None and state.shape != (len(u), D, N):
        raise ValueError(f"the state must be {(len(u), D, N)} for inputs {tuple(u.shape)}, not {tuple(state.shape)}")
    return rates, weights


def _system(draw: Draw) -> tuple[Tensor, Tensor]:
    D, N = CHANNELS, CHANNELS
    return torch.complex(-draw(D, N).exp(), draw(D, N)), torch.complex(draw(D, N), draw(D, N))


def _draw_filter_inputs(draw: Draw, B: int, T: int) -> Tensor:
    system = _system(draw)
    return filter_sequence(draw(B, T, CHANNELS), lambda: system)


def _draw_response_inputs(draw: Draw, B: int, T: int) -> tuple[Tensor, Tensor]:
    system = _system(draw)
    state = torch.complex(draw(B, CHANNELS, CHANNELS), draw(B, CHANNELS, CHANNELS))
    return respond(draw(B, T, CHANNELS), lambda: system, state)


OP = Op(
    "diagonal_states",
    {
        "reference": Backend(reference),
        "convolved": Backend(convolved, plain=True),
        "blocks": Backend(blocks, plain=True),
    },
    rule=lambda fastest: fastest,  # `choose_backend` or `at_once`, as the caller chooses
    examples=(_draw_filter_inputs, _draw_response_inputs),
    price=reference.price,
)

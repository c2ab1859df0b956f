"""A scan in native code as two operators of torch, which a compiled model calls unchanged.

Forward saves the state before every 32 tokens, and backward recomputes the states between them. Second derivatives are
taken through torch's operations (`walks`).
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from seqloom.ops.autograd import CPU, Operator, differentiate, pair_operators
from seqloom.ops.scan.selective_scan import doubling, walks
from seqloom.ops.scan.selective_scan.inputs import Scan


def operator(
    name: str,
    forward: Callable[[Scan, bool], tuple[Tensor, Tensor, Tensor]],
    backward: Callable[[Scan, Tensor, Tensor, Tensor | None], tuple[Tensor, ...]],
    marks: Callable[[Tensor, Tensor], Sequence[int]],
    devices: Sequence[str] = CPU,
) -> Operator:
    """The operator of the scan `name`, which takes the fields of a `Scan`, and whether it learns.

    `forward` returns y, the last state and, if it learns, the saved states for `backward`, whose shape `marks` returns.
    `backward` gets the inputs, the saved states, and the gradients of y and of the last state; it returns the gradients
    of all inputs but `lengths`.
    """

    def run(
        u: Tensor,
        delta: Tensor,
        log_rate: Tensor,
        b: Tensor,
        c: Tensor,
        state: Tensor | None,
        bias: Tensor | None,
        skip: Tensor | None,
        gate: Tensor | None,
        lengths: Tensor | None,
        learns: bool,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return forward(Scan(u, delta, log_rate, b, c, state, bias, skip, gate, lengths), learns)

    def gradients(
        u: Tensor,
        delta: Tensor,
        log_rate: Tensor,
        b: Tensor,
        c: Tensor,
        state: Tensor | None,
        bias: Tensor | None,
        skip: Tensor | None,
        gate: Tensor | None,
        lengths: Tensor | None,
        marks: Tensor,
        dy: Tensor,
        dnew_state: Tensor | None,
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
        scan = Scan(u, delta, log_rate, b, c, state, bias, skip, gate, lengths)
        return backward(scan, marks, dy, dnew_state)  # type: ignore[return-value]  # nine

    def shapes(u: Tensor, delta: Tensor, log_rate: Tensor, *rest: Any) -> list[Sequence[int]]:
        learns = rest[-1]
        return [u.shape, (u.shape[0], *log_rate.shape), marks(u, log_rate) if learns else (0,)]

    def gradient_shapes(u: Tensor, delta: Tensor, log_rate: Tensor, *rest: Any) -> list[Sequence[int]]:
        (B, T, D), N = u.shape, log_rate.shape[1]
        gate = rest[5]  # after b, c, state, bias and skip
        gate_shape = (0,) if gate is None else u.shape
        return [u.shape, u.shape, (D, N), (B, T, N), (B, T, N), (B, D, N), (D,), (D,), gate_shape]

    def differentiable(*saved: Any) -> list[Tensor | None]:
        arguments, lengths, output_grads = saved[:9], saved[9], saved[11:]  # saved[10] are the saved states

        def selective(*tensors: Tensor) -> tuple[Tensor, Tensor]:
            return walks.selective(doubling, Scan._make((*tensors, lengths)))

        return differentiate(selective, arguments, output_grads)

    return pair_operators(
        name,
        run,
        gradients,
        shapes=shapes,
        gradient_shapes=gradient_shapes,
        save=lambda inputs, outputs: (*inputs[:10], outputs[2]),
        differentiable=differentiable,
        results=2,
        devices=devices,
    )


def selective_by(run: Operator) -> Callable[[Scan], tuple[Tensor, Tensor]]:
    """The backend of an operator, which saves states for backward only where gradients are needed."""

    def selective(scan: Scan) -> tuple[Tensor, Tensor]:
        learns = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in scan)
        y, new_state, _ = run(*scan, learns)
        return y, new_state

    return selective

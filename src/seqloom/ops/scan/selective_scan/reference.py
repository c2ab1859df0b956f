"""The scan as it is written, token by token, and its price, counted from it.

It is computed with the states of the equation and nothing else, so that counting its operations prices the equation.
What depends on weights alone is computed at each token, so that a step has the same price as a token of a sequence.
"""

import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.core.cost import Cost
from seqloom.ops.scan.selective_scan.inputs import Scan


def selective(scan: Scan) -> tuple[Tensor, Tensor]:
    """y (B, T, D), and the state (B, D, N) at the end."""
    u, delta, log_rate, b, c, state, bias, skip, gate, lengths = scan
    h, outputs = u.new_zeros(len(u), *log_rate.shape) if state is None else state, []
    for t in range(u.shape[1]):
        step = delta[:, t] if bias is None else F.softplus(delta[:, t] + bias)
        decay = torch.exp(-step[:, :, None] * torch.exp(log_rate))
        new_state = decay * h + (step * u[:, t])[:, :, None] * b[:, t, None]
        y = (new_state * c[:, t, None]).sum(2)
        if skip is not None:
            y = y + skip * u[:, t]
        if gate is not None:
            y = y * F.silu(gate[:, t])
        if lengths is not None:
            real = t < lengths
            new_state, y = torch.where(real[:, None, None], new_state, h), torch.where(real[:, None], y, 0.0)
        h = new_state
        outputs.append(y)
    return torch.stack(outputs, 1), h


def price(rows: int, dim: int, states: int, gate: bool) -> Cost:
    """The price of `rows` tokens with the skip. Every position costs the same, also the first, whose state is 0.

    A = -e^log_rate is computed at every token, as in a step. The bias of Δ is part of the price of its projection.
    """
    channels, numbers = rows * dim, rows * dim * states
    return Cost(
        mul=4 * numbers + (2 + gate) * channels,
        add=2 * numbers + (1 + gate) * channels,
        div=gate * channels,
        exp=2 * numbers + (1 + gate) * channels,
        other=2 * channels,  # of softplus the logarithm, and of Δ the sign
        path=("exponentiation", "multiplication", "addition", "multiplication", "cumulation", "addition"),
    )

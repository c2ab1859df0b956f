"""The reference of the scan: token by token, with the states of the equation and nothing else.

Counting its operations prices the equation. What depends on weights alone is computed at each token, so that a step
has the same price as a token of a sequence.
"""

import torch
from torch import Tensor
from torch.nn import functional as F


def selective(
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
) -> tuple[Tensor, Tensor]:
    """See `walks.selective`."""
    h, outputs = u.new_zeros(len(u), *log_rate.shape) if state is None else state, []
    for t in range(u.shape[1]):
        width = delta[:, t] if bias is None else F.softplus(delta[:, t] + bias)
        decay = torch.exp(-width[:, :, None] * torch.exp(log_rate))
        after = decay * h + (width * u[:, t])[:, :, None] * b[:, t, None]
        y = (after * c[:, t, None]).sum(2)
        if skip is not None:
            y = y + skip * u[:, t]
        if gate is not None:
            y = y * F.silu(gate[:, t])
        if lengths is not None:
            real = t < lengths
            after, y = torch.where(real[:, None, None], after, h), torch.where(real[:, None], y, 0.0)
        h = after
        outputs.append(y)
    return torch.stack(outputs, 1), h

"""The reference of the sLSTM, token by token. Prices count its operations."""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from seqloom.ops.recurrence.reference import after

States = tuple[Tensor, ...]
"""h, c, n, m"""


def cell(a: Tensor, w: Tensor, bias: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor) -> States:
    """The state after a token whose input is a (B, H, G)."""
    H, K, _ = w.shape
    recurrent = torch.baddbmm(bias[:, None], h.view(-1, H, K).transpose(0, 1), w).transpose(0, 1)
    i, f, z, o = (gate.flatten(1) for gate in (a + recurrent).chunk(4, -1))
    staying = logsigmoid(f) + m.detach()
    top = torch.maximum(staying, i).detach()
    entering, staying = torch.exp(i - top), torch.exp(staying - top)
    c = staying * c + entering * torch.tanh(z)
    n = staying * n + entering
    return torch.sigmoid(o) * c / n, c, n, top


def states(a: Tensor, w: Tensor, bias: Tensor, state: States) -> States:
    """All h, c, n and m (B, T+1, N), with those before the first token."""
    states = [state]
    for token in a.unbind(1):
        states.append(cell(token, w, bias, *states[-1]))
    return tuple(torch.stack(part, 1) for part in zip(*states, strict=True))


def read(a: Tensor, w: Tensor, bias: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
    """(B, T, H, G) → the outputs (B, T, N), and the state after `lengths` tokens of each row or after the last."""
    every = states(a, w, bias, state)
    return every[0][:, 1:], tuple(after(states, lengths) for states in every)

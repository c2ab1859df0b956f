"""The sLSTM as it is written, token by token, and its price, counted from it.

The price is that of `rows` tokens and N units, the same for every token. The product with the matrix of the state and
the bias are not included, since that matrix is a part of the mixer, which has its own price. The sum with a_t is
included.
"""

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from seqloom.core.cost import Cost, Step
from seqloom.ops.recurrence.reference import state_after

States = tuple[Tensor, ...]
"""h, c, n, m"""


def cell(a: Tensor, w: Tensor, bias: Tensor, h: Tensor, c: Tensor, n: Tensor, m: Tensor) -> States:
    """The state after a token whose input is a (B, H, G)."""
    H, K, _ = w.shape
    recurrent = torch.baddbmm(bias[:, None], h.view(-1, H, K).transpose(0, 1), w).transpose(0, 1)
    i, f, z, o = (gate.flatten(1) for gate in (a + recurrent).chunk(4, -1))
    log_f = logsigmoid(f) + m.detach()
    new_m = torch.maximum(log_f, i).detach()
    i, f = torch.exp(i - new_m), torch.exp(log_f - new_m)
    c = f * c + i * torch.tanh(z)
    n = f * n + i
    return torch.sigmoid(o) * c / n, c, n, new_m


def states(a: Tensor, w: Tensor, bias: Tensor, state: States) -> States:
    """All h, c, n and m (B, T+1, N), with those before the first token."""
    states = [state]
    for token in a.unbind(1):
        states.append(cell(token, w, bias, *states[-1]))
    return tuple(torch.stack(part, 1) for part in zip(*states, strict=True))


def read(a: Tensor, w: Tensor, bias: Tensor, state: States, lengths: Tensor | None) -> tuple[Tensor, States]:
    """(B, T, H, G) → the outputs (B, T, N), and the state after `lengths` tokens of each row or after the last."""
    all_states = states(a, w, bias, state)
    return all_states[0][:, 1:], tuple(state_after(tensor, lengths) for tensor in all_states)


def price(rows: int, N: int) -> Cost:
    """The price: four sums, a maximum of two, two exponentials, log σ, tanh and σ, and the sums of c, n and h."""
    n = rows * N
    gates: tuple[Step, ...] = ("addition", "exponentiation", "other", "addition", "other", "addition", "exponentiation")
    path: tuple[Step, ...] = (*gates, "multiplication", "addition", "multiplication", "division")
    return Cost(mul=5 * n, add=13 * n, div=3 * n, exp=5 * n, other=2 * n, path=path)

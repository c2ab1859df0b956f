"""The three models as they are written, token by token, and their prices, counted from them.

They are computed with only the terms of the equation, so that counting their operations prices the equation. What
depends on weights alone is computed at each token, so that a step has the same price as a token of a sequence.

So a price has the discretization at each token. N×N systems are solved by elimination, (N³-N)/3 products and
differences and N(N-1)/2 quotients, then N(N-1) and N for each right side. A matrix exponential is priced as the five
products of its polynomial of degree 18, which depend on no number (Bader, Blanes and Casas, 2019).
"""

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor

from seqloom.core.cost import Cost, Step
from seqloom.ops.state_space.discretise import DENSE, Method

System: TypeAlias = Callable[[], tuple[Tensor, ...]]
"""returns the weights; called at each token"""


def run_joint(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, N) → y (B, T, D) and x after `lengths` tokens or the last.

    B̄ is never formed: a matrix (N, N) is multiplied by B u.
    """
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        A, B, C, step = system()
        x = u.new_zeros(len(u), len(A)) if x is None else x
        A_bar, factor = DENSE[method](A, torch.eye(len(A), dtype=A.dtype, device=A.device), step)  # B̄ is factor · B
        x = _choose_state(x @ A_bar.mT + token @ B.mT @ factor.mT, x, t, lengths)
        outputs.append(x @ C.mT)
    return torch.stack(outputs, 1), None if state is None else x


def single(
    u: Tensor, system: System, method: str, state: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, D, N) → y (B, T, D, M) and x."""
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        A, B, C, step = system()
        x = u.new_zeros(len(u), len(C), len(A)) if x is None else x
        A_bar, B_bar = DENSE[method](A, B, step)
        A_x = (x.transpose(0, 1) @ A_bar.mT).transpose(0, 1)
        x = _choose_state(A_x + B_bar * token[..., None], x, t, lengths)
        outputs.append((x.transpose(0, 1) @ C.mT).transpose(0, 1))
    return torch.stack(outputs, 1), None if state is None else x


def low_rank(u: Tensor, system: System, state: Tensor | None, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """u (B, T, D) and x (B, D, H) → y (B, T, D) and x.

    (2/Δ - A) x_t = (2/Δ + A) x_{t-1} + 2 B u_t, with 2/Δ - A = 2/Δ - Λ + P P* inverted by Woodbury's identity.
    """
    outputs, x = [], state
    for t, token in enumerate(u.unbind(1)):
        eigenvalues, P, B, C, step = system()
        x = torch.zeros_like(C).expand(len(u), -1, -1) if x is None else x
        rate = (2 / step)[:, None]
        inverse = torch.reciprocal(rate - eigenvalues)
        inverse_P = inverse * P
        middle = torch.reciprocal(1 + dot(P, inverse_P))
        right_side = (rate + eigenvalues) * x - P * dot(P, x)[..., None] + 2 * B * token[..., None]
        v = inverse * right_side
        x = _choose_state(v - inverse_P * (middle * dot(P, v))[..., None], x, t, lengths)
        outputs.append(2 * (C.real * x.real - C.imag * x.imag).sum(-1))
    return torch.stack(outputs, 1), None if state is None else x


def dot(left: Tensor, right: Tensor) -> Tensor:
    """left* right over both halves of the pairs: 2 Re Σ_n conj(left_n) right_n, a real number."""
    return 2 * (left.real * right.real + left.imag * right.imag).sum(-1)


def _choose_state(new: Tensor, old: Tensor, t: int, lengths: Tensor | None) -> Tensor:
    """The new state in rows that have token t, the old state where t is padding."""
    if lengths is None:
        return new
    return torch.where((t < lengths).view(-1, *[1] * (new.ndim - 1)), new, old)


TURN: tuple[Step, ...] = ("multiplication", "cumulation", "addition")
"""the critical path from state to state"""


def joint_price(rows: int, N: int, method: Method) -> Cost:
    """The price of Ā x + B̄ u over N states, for `rows` tokens; the linear layers B u and C x have their own price."""
    update = Cost(mul=2 * N * N, add=2 * N * (N - 1) + N, path=TURN)
    return rows * (discrete_price(1, N, N, method) + update)


def single_price(rows: int, D: int, N: int, M: int, method: Method) -> Cost:
    """The price of Ā x + B̄ u and C x for `rows` tokens, with N states and M outputs for each of D channels."""
    update = Cost(mul=D * (N * N + N), add=D * (N * (N - 1) + N), path=TURN)
    out = Cost(mul=D * M * N, add=D * M * (N - 1), path=("multiplication", "cumulation"))
    return rows * (discrete_price(D, N, 1, method) + update + out)


def low_rank_price(rows: int, D: int, H: int) -> Cost:
    """The price of the recurrence by Woodbury's identity, over H pairs of conjugates for each of D channels."""
    dot_price = Cost(mul=2 * D * H + D, add=2 * D * H - D)
    weights = Cost(  # 2/Δ, less Λ, its inverse, its product with P, and the middle factor
        mul=D + 6 * D * H, add=4 * D * H + D, div=2 * D * H + 2 * D
    )
    update = Cost(  # (2/Δ + Λ) x - P (P* x) + 2 B u, times the inverse, less the rank 1
        mul=14 * D * H + 2 * H + D, add=11 * D * H, path=(*TURN, "multiplication", "cumulation", *TURN)
    )
    return rows * (weights + update + 3 * dot_price + Cost(mul=dot_price.mul, add=dot_price.add, path=TURN[:2]))


def discrete_price(systems: int, N: int, M: int, method: Method) -> Cost:
    """The price of Ā and B̄ from A (N, N) and B (N, M), for `systems` steps Δ."""
    scaled = Cost(mul=N * N + N * M, path=("multiplication",))
    if method == "bilinear":
        scaled += Cost(add=2 * N * N, div=N * N) + solution_price(N, N + M)
    if method == "zoh":
        scaled += exponential_price(N + M)
    if method == "euler":
        scaled += Cost(add=N * N)
    return systems * scaled


def solution_price(N: int, right: int) -> Cost:
    """The price of solving an N×N system for `right` right sides."""
    products = (N**3 - N) // 3 + right * N * (N - 1)
    return Cost(mul=products, add=products, div=N * (N - 1) // 2 + right * N, path=("division",))


def exponential_price(N: int) -> Cost:
    """The price of e^A for an N×N matrix A."""
    return Cost(mul=5 * N**3, add=5 * N * N * (N - 1), path=("multiplication", "cumulation"))

"""The price of the state-space models, for each token the operations of `reference`.

The discretization is computed at each token, as in a step. N×N systems are solved by elimination, (N³-N)/3 products
and differences and N(N-1)/2 quotients, then N(N-1) and N for each right side. A matrix exponential is priced as the
five products of its polynomial of degree 18, which depend on no number (Bader, Blanes and Casas, 2019).
"""

from seqloom.core.cost import Cost, Step
from seqloom.ops.state_space.discretise import Method

TURN: tuple[Step, ...] = ("multiplication", "cumulation", "addition")
"""the critical path from state to state"""


def joint(rows: int, N: int, method: Method) -> Cost:
    """Ā x + B̄ u over N states, for `rows` tokens; B u and C x are linear layers, which have their own price."""
    turn = Cost(mul=2 * N * N, add=2 * N * (N - 1) + N, path=TURN)
    return rows * (discrete(1, N, N, method) + turn)


def single(rows: int, D: int, N: int, M: int, method: Method) -> Cost:
    """Ā x + B̄ u and C x, N states and M outputs for each of D channels."""
    turn = Cost(mul=D * (N * N + N), add=D * (N * (N - 1) + N), path=TURN)
    out = Cost(mul=D * M * N, add=D * M * (N - 1), path=("multiplication", "cumulation"))
    return rows * (discrete(D, N, 1, method) + turn + out)


def low_rank(rows: int, D: int, H: int) -> Cost:
    """The price of the recurrence by Woodbury's identity, over H pairs of conjugates for each of D channels."""
    dot = Cost(mul=2 * D * H + D, add=2 * D * H - D)
    weights = Cost(  # 2/Δ, less Λ, its inverse, its product with P, and the middle factor
        mul=D + 6 * D * H, add=4 * D * H + D, div=2 * D * H + 2 * D
    )
    turn = Cost(  # (2/Δ + Λ) x - P (P* x) + 2 B u, times the inverse, less the rank 1
        mul=14 * D * H + 2 * H + D, add=11 * D * H, path=(*TURN, "multiplication", "cumulation", *TURN)
    )
    return rows * (weights + turn + 3 * dot + Cost(mul=dot.mul, add=dot.add, path=TURN[:2]))


def discrete(systems: int, N: int, M: int, method: Method) -> Cost:
    """Ā and B̄ of A (N, N) and B (N, M), for `systems` steps Δ."""
    scaled = Cost(mul=N * N + N * M, path=("multiplication",))
    if method == "bilinear":
        scaled += Cost(add=2 * N * N, div=N * N) + solution(N, N + M)
    if method == "zoh":
        scaled += exponential(N + M)
    if method == "euler":
        scaled += Cost(add=N * N)
    return systems * scaled


def solution(N: int, right: int) -> Cost:
    """The solution of an N×N system for `right` right sides."""
    products = (N**3 - N) // 3 + right * N * (N - 1)
    return Cost(mul=products, add=products, div=N * (N - 1) // 2 + right * N, path=("division",))


def exponential(N: int) -> Cost:
    """e^A of an N×N matrix."""
    return Cost(mul=5 * N**3, add=5 * N * N * (N - 1), path=("multiplication", "cumulation"))

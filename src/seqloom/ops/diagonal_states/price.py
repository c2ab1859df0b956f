"""The price of diagonal systems and of their discretization, the same for every token."""

from seqloom.core.cost import Cost

GROWTH = Cost(mul=10, add=5, div=3, exp=2, other=6)
"""(e^z - 1) / z of a complex number, as `seqloom.ops.state_space.discretise` computes it"""
EXPONENTIAL = Cost(mul=2, exp=1, other=2)
"""e^z of a complex number"""


def price(rows: int, dim: int, states: int, shared: bool) -> Cost:
    """The price of `rows` tokens of `dim` channels with `states` complex states: λ̄ = e^Δλ, λ̄ h + u, and 2 Re Σ w h.

    If `shared`, all channels have the same λ̄, which are computed once.
    """
    fade = rows * states * (1 if shared else dim) * EXPONENTIAL
    return fade + Cost(
        mul=rows * dim * (6 * states + 1),
        add=rows * dim * (4 * states + states - 1),
        path=("exponentiation", "multiplication", "addition", "addition", "multiplication", "cumulation"),
    )

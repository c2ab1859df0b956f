"""DeltaNet is its paper's recurrence: the gated delta rule with α = 1 and without a gate.

Source: Yang et al., arXiv:2406.06484.
"""

import numpy as np
import pytest

from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.activations import each
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.delta_rule import delta_rule, normed, of_equal_widths


def delta(x: Array, w: Weights, heads: int, strongest: float) -> Array:
    """x (T, D) -> (T, D)."""
    strengths, Y = strongest * each(sigmoid, projected(x, w["w_b"])), np.zeros_like(x)
    for h in range(heads):
        q, k, v, part = of_equal_widths(x, w, h, heads)
        Y[:, part] = normed(delta_rule(q, k, v, np.ones_like(k), strengths[:, h]), w["gain"], 1e-5)
    return out(Y, w)


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "b")},
    **{"conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "delta": ({"kind": "delta", "heads": 2}, lambda x, w: delta(x, w, 2, strongest=1.0)),
    "delta, negative": ({"kind": "delta", "heads": 1, "negative": True}, lambda x, w: delta(x, w, 1, strongest=2.0)),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_delta_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)

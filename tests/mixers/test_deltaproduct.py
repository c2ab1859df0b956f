"""DeltaProduct is its paper's recurrence over matrices S (K, V).

    A_t = ∏_{j=n…1} (I - β_j k_j k_jᵀ),   B_t = Σ_j (∏_{l=n…j+1} (I - β_l k_l k_lᵀ)) β_j k_j v_jᵀ
    S_t = α_t A_t S_{t-1} + B_t

Source: Siems et al., arXiv:2502.10297, section 4.
"""

import math
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.mixers import mixer_config
from seqloom.ops.delta_rule.delta_steps import delta_steps
from tests.mixers.delta import DIM, built, same
from tests.mixers.equation import Case, check_equation
from tests.mixers.recurrences.activations import each, silu, softplus
from tests.mixers.recurrences.arithmetic import Array, Weights, out, projected, sigmoid
from tests.mixers.recurrences.delta_rule import normed, unit
from tests.mixers.recurrences.mamba import convolved


def deltaproduct(x: Array, w: Weights, heads: int, value_heads: int, n: int, strongest: float, K: int) -> Array:
    """x (T, D) -> (T, D); columns of keys, values and strengths by step, then by head."""
    made = projected(x, w["w_qkv"])
    made, V = each(silu, convolved(made, w["taps"].T, np.zeros(made.shape[1]))), len(w["w_out"]) // value_heads
    strengths, Y = strongest * each(sigmoid, projected(x, w["w_b"])), np.zeros((len(x), value_heads * V))
    for h in range(value_heads):
        of = h * heads // value_heads
        S = np.zeros((K, V))
        for t, row in enumerate(made):
            A, added = np.eye(K), np.zeros((K, V))
            for j in range(n):
                k = unit(row[(heads * (1 + j) + of) * K :][:K])
                v = row[heads * (1 + n) * K + (value_heads * j + h) * V :][:V]
                beta = strengths[t, value_heads * j + h]
                moved = np.eye(K) - beta * np.outer(k, k)
                A, added = moved @ A, moved @ added + beta * np.outer(k, v)
            alpha = 1.0
            if "w_a" in w:
                logit = projected(x[t : t + 1], w["w_a"])[0, h] + w["b_a"][h]
                alpha = math.exp(-math.exp(w["a_log"][h]) * softplus(logit))
            S = alpha * A @ S + added
            Y[t, h * V : (h + 1) * V] = S.T @ unit(row[of * K : (of + 1) * K]) / math.sqrt(K)
        Y[:, h * V : (h + 1) * V] = normed(Y[:, h * V : (h + 1) * V], w["gain"], 1e-5)
    return out(Y * each(silu, projected(x, w["w_g"])) if "w_g" in w else Y, w)


THREE_STEPS = {"steps": 3, "decay": False, "gate": False, "negative": False}


LETTERS = {
    **{f"w_{name}.weight": f"w_{name}" for name in ("qkv", "a", "b", "g")},
    **{"w_a.bias": "b_a", "a_log": "a_log", "conv.weight": "taps", "norm.weight": "gain", "w_o.weight": "w_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "deltaproduct": ({"kind": "deltaproduct", "heads": 2}, lambda x, w: deltaproduct(x, w, 2, 2, 2, 2.0, 3)),
    "deltaproduct, 3 steps, shared keys, no decay": (
        {**{"kind": "deltaproduct", "heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3}, **THREE_STEPS},
        lambda x, w: deltaproduct(x, w, 1, 2, 3, 1.0, 4),
    ),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_deltaproduct_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("negative", [False, True])
@pytest.mark.parametrize(
    "sizes", [{"heads": 2}, {"heads": 1, "value_heads": 2, "key_width": 4, "value_width": 3}], ids=str
)
def test_one_step_is_the_gated_delta_rule(sizes: dict[str, int], negative: bool) -> None:
    one = built(kind="deltaproduct", steps=1, negative=negative, **sizes)
    known = built(kind="gated_delta", negative=negative, **sizes)
    known.load_state_dict(one.state_dict())
    same(one, known)


def test_one_step_without_decay_and_gate_is_deltanet() -> None:
    widths = {"key_width": DIM // 2, "value_width": DIM // 2}
    one = built(kind="deltaproduct", heads=2, steps=1, negative=False, decay=False, gate=False, **widths)
    known = built(kind="delta", heads=2)
    known.load_state_dict(one.state_dict())
    same(one, known)


@pytest.mark.parametrize("steps", [1, 2, 3, 4])
def test_n_reflections_make_a_cycle_of_n_plus_1_things(steps: int) -> None:
    """β = 2 and keys (e_i - e_j)/√2 swap two coordinates: a token cycles the state, and n + 1 restore it."""
    K = 5
    e = torch.eye(K, dtype=torch.float64)
    k = torch.stack([(e[j] - e[j + 1]) / 2**0.5 for j in range(steps)])
    state = torch.randn(1, 1, K, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    tokens = steps + 1
    k = k.expand(1, 1, tokens, steps, K)
    nothing, twos = torch.zeros(1, 1, tokens, steps, 2).double(), torch.full((1, 1, tokens, steps), 2.0).double()
    q = torch.zeros(1, 1, tokens, K).double()
    _, after = delta_steps(q[:, :, :1], k[:, :, :1], nothing[:, :, :1], twos[:, :, :1], state=state)
    order = [*range(1, steps + 1), 0, *range(steps + 1, K)]
    torch.testing.assert_close(after[0, 0], state[0, 0, order], rtol=0, atol=1e-12)
    _, again = delta_steps(q, k, nothing, twos, state=state)
    torch.testing.assert_close(again, state, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"steps": 0}, "steps"),
        ({"heads": 8}, "3/4 of dim 8 is too narrow for 8 heads"),
        ({"heads": 2, "value_heads": 3}, "3 value heads are no multiple of 2 heads"),
    ],
)
def test_settings_of_deltaproduct_that_do_not_fit(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        mixer_config({"kind": "deltaproduct", **settings}).build(DIM, 32)

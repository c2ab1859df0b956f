"""The linear state-space layer against its recurrence, LSSL-f, and the initial values of both.

The linear state-space layer: for each channel a state, of which M numbers are read; then GELU and a layer.

    x_t = Ā x_{t-1} + B̄ u_t,  y_t = C x_t + D u_t,  C (M, N), D (M)            section 3, per channel, with its own Δ
    Ā = (I - Δ/2 A)^{-1} (I + Δ/2 A),  B̄ = (I - Δ/2 A)^{-1} ΔB                 section 2 with α = 1/2
    out = GELU(y, all channels' M side by side) W_out                           section 3, the deep model

A and B are HiPPO's or learned, the same in every channel or not.

Source: Gu et al., Combining Recurrent, Convolutional, and Continuous-time Models, arXiv:2110.13985.
"""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.lssl import LSSL
from seqloom.ops.state_space.hippo import MEASURES
from tests.mixers.equation import Case, check_equation, check_long
from tests.mixers.recurrences.activations import each, gelu
from tests.mixers.recurrences.arithmetic import Array, Weights, out
from tests.mixers.recurrences.ssm import RULES, ssm

DIM = 4


def build_lssl(dim: int = DIM, **settings: object) -> LSSL:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "lssl", **settings}).build(dim, None)
    assert isinstance(mixer, LSSL)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("learn", "outputs"), [(True, 3), (False, 1)])
def test_forward_and_steps_are_the_recurrence(measure: str, learn: bool, outputs: int) -> None:
    mixer = build_lssl(measure=measure, learn=learn, outputs=outputs, state_dim=5).double()
    x, eye, seen = draw(2, 11, DIM), torch.eye(5), []
    with torch.no_grad():
        h = torch.zeros(2, DIM, 5, dtype=torch.float64)
        for t in range(11):
            for c in range(DIM):
                half = mixer.log_step[c].exp() / 2 * mixer.a
                driven = mixer.log_step[c].exp() * mixer.b
                right = (eye + half) @ h[:, c].T + driven[:, None] * x[:, t, c]
                h[:, c] = torch.linalg.solve(eye - half, right).T
            y = torch.einsum("bdn,dmn->bdm", h, mixer.c) + mixer.d * x[:, t, :, None]
            seen.append(mixer.w_out(F.gelu(y).reshape(2, -1)))
        expected = torch.stack(seen, 1)
        torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-10)
        state = mixer.start(2)
        for t in range(11):
            y, state = mixer.step(x[:, t], state)
            torch.testing.assert_close(y, expected[:, t], rtol=0, atol=1e-10)
        torch.testing.assert_close(state["h"], h, rtol=0, atol=1e-10)


def test_the_fixed_one_learns_no_dynamics() -> None:
    fixed, learned = build_lssl(learn=False), build_lssl()
    assert {name for name, _ in fixed.named_parameters()} == {"c", "d", "w_out.weight", "w_out.bias"}
    assert set(fixed.state_dict()) == set(learned.state_dict())
    assert [set(group) for group in fixed.param_groups()] == [{"params"}]
    plain, dynamics = learned.param_groups()
    assert dynamics["weight_decay"] == 0.0
    assert {id(p) for p in dynamics["params"]} == {id(p) for p in (learned.a, learned.b, learned.log_step)}
    assert len(plain["params"]) + len(dynamics["params"]) == len(list(learned.parameters()))


@pytest.mark.slow
@pytest.mark.parametrize("measure", MEASURES)
def test_it_is_initialized_as_hippo_at_many_time_scales(measure: str) -> None:
    mixer = build_lssl(dim=2048, state_dim=6, measure=measure)
    A, B = MEASURES[measure](6)
    mixer.reset(0.02)
    torch.testing.assert_close(mixer.a.detach(), A.float())
    torch.testing.assert_close(mixer.b.detach(), B.float())
    steps = mixer.log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 1.1e-3
    assert 0.09 < float(steps.max()) <= 0.1
    assert float(mixer.c.detach().std()) == pytest.approx(1, abs=0.05)


def test_long_sequences_of_lssl_in_float32() -> None:
    mixer, x = build_lssl(state_dim=8), draw(1, 8192, DIM).float()
    y = mixer(x)
    y.square().mean().backward()
    assert bool(y.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in mixer.parameters())
    with torch.no_grad():
        torch.testing.assert_close(mixer.double()(x.double()).float(), y, rtol=0, atol=1e-3)


def lssl(x: Array, w: Weights, rule: str = "bilinear") -> Array:
    """x (T, D) -> (T, D); w has A (N, N) or (D, N, N), B (N,) or (D, N), C (D, M, N), D (D, M), delta (D,), w_out."""
    width, M, N = w["C"].shape
    A, B = np.broadcast_to(w["A"], (width, N, N)), np.broadcast_to(w["B"], (width, N))
    y = np.zeros((len(x), width * M))
    for c in range(width):
        stepped = RULES[rule](A[c], B[c], w["delta"][c])
        for m in range(M):
            y[:, c * M + m] = ssm(x[:, c], *stepped, w["C"][c, m], w["D"][c, m])
    y = out(each(gelu, y), w)
    return y + w["b_out"] if "b_out" in w else y


def of_lssl(x: Array, w: Weights) -> Array:
    return lssl(x, {**w, "delta": np.exp(w["log_delta"])})


LETTERS = {
    **{"a": "A", "b": "B", "log_step": "log_delta", "c": "C", "d": "D"},
    **{"w_out.weight": "w_out", "w_out.bias": "b_out"},
}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    "lssl": ({"kind": "lssl", "state_dim": 6}, of_lssl),
    "lssl, not learned": ({"kind": "lssl", "state_dim": 6, "learn": False}, of_lssl),
    "lssl, 3 outputs": ({"kind": "lssl", "state_dim": 4, "outputs": 3}, of_lssl),
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_lssl_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_lssl_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)

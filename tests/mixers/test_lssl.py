"""The linear state-space layer against its recurrence, LSSL-f, and the initial values of both."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.lssl import LSSL
from seqloom.ops.state_space.hippo import MEASURES

DIM = 4


def lssl(dim: int = DIM, **settings: object) -> LSSL:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "lssl", **settings}).build(dim, None)
    assert isinstance(mixer, LSSL)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize(("learn", "outputs"), [(True, 3), (False, 1)])
def test_forward_and_steps_are_the_recurrence(measure: str, learn: bool, outputs: int) -> None:
    mixer = lssl(measure=measure, learn=learn, outputs=outputs, state_dim=5).double()
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
            seen.append(mixer.w_out(gelu(y).reshape(2, -1)))
        expected = torch.stack(seen, 1)
        torch.testing.assert_close(mixer(x), expected, rtol=0, atol=1e-10)
        state = mixer.start(2)
        for t in range(11):
            y, state = mixer.step(x[:, t], state)
            torch.testing.assert_close(y, expected[:, t], rtol=0, atol=1e-10)
        torch.testing.assert_close(state["h"], h, rtol=0, atol=1e-10)


def test_the_fixed_one_learns_no_dynamics() -> None:
    fixed, learned = lssl(learn=False), lssl()
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
    mixer = lssl(dim=2048, state_dim=6, measure=measure)
    A, B = MEASURES[measure](6)
    mixer.reset(0.02)
    torch.testing.assert_close(mixer.a.detach(), A.float())
    torch.testing.assert_close(mixer.b.detach(), B.float())
    steps = mixer.log_step.detach().exp()
    assert 1e-3 <= float(steps.min()) < 1.1e-3
    assert 0.09 < float(steps.max()) <= 0.1
    assert float(mixer.c.detach().std()) == pytest.approx(1, abs=0.05)


def test_long_sequences_in_float32() -> None:
    mixer, x = lssl(state_dim=8), draw(1, 8192, DIM).float()
    y = mixer(x)
    y.square().mean().backward()
    assert bool(y.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in mixer.parameters())
    with torch.no_grad():
        torch.testing.assert_close(mixer.double()(x.double()).float(), y, rtol=0, atol=1e-3)

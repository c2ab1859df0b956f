"""The linear state-space model against its recurrence, its matrices' beginnings, and what training it takes."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.mixers import mixer_config
from seqloom.mixers.state_space.ssm import SSM
from seqloom.ops.state_space.discretise import DENSE
from seqloom.ops.state_space.hippo import MEASURES
from tests.mixers.equation import Case, Recurrence, check_equation, check_long
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.ssm import system

DIM = 5


def build_ssm(dim: int = DIM, **settings: object) -> SSM:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "ssm", **settings}).build(dim, None)
    assert isinstance(mixer, SSM)
    return mixer


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("method", DENSE)
def test_forward_and_steps_are_the_recurrence(measure: str, method: str) -> None:
    mixer, x = build_ssm(measure=measure, method=method, state_dim=4, step=0.05).double(), draw(2, 13, DIM)
    with torch.no_grad():
        A_bar, B_bar = DENSE[method](mixer.a, mixer.b.weight, float(mixer.log_step.exp()))
        h, state = torch.zeros(2, 4, dtype=torch.float64), mixer.start(2)
        y = mixer(x)
        for t in range(13):
            h = h @ A_bar.T + x[:, t] @ B_bar.T
            expected = h @ mixer.c.weight.T + x[:, t] @ mixer.d.weight.T
            step, state = mixer.step(x[:, t], state)
            torch.testing.assert_close(y[:, t], expected, rtol=0, atol=1e-11)
            torch.testing.assert_close(step, expected, rtol=0, atol=1e-11)
        torch.testing.assert_close(state["h"], h, rtol=0, atol=1e-11)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("method", DENSE)
def test_it_is_stable_at_initialization(measure: str, method: str) -> None:
    mixer = build_ssm(measure=measure, method=method)
    A, _ = MEASURES[measure](16)
    torch.testing.assert_close(mixer.a.detach(), A.float())
    A_bar, _ = DENSE[method](A, torch.zeros(16, dtype=torch.float64), float(mixer.log_step.detach().exp()))
    assert float(torch.linalg.eigvals(A_bar).abs().max()) < 1


def test_reset_and_groups() -> None:
    mixer = build_ssm(step=0.2)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.fill_(3.0)
    mixer.reset(0.02)
    torch.testing.assert_close(mixer.a.detach(), MEASURES["legs"](16)[0].float())
    assert float(mixer.log_step.detach()) == pytest.approx(math.log(0.2))
    assert float(mixer.d.weight.detach().abs().max()) < 0.1
    plain, dynamics = mixer.param_groups()
    assert set(plain) == {"params"}
    assert dynamics["weight_decay"] == 0.0
    assert {id(p) for p in dynamics["params"]} == {id(mixer.a), id(mixer.log_step)}


@pytest.mark.slow
def test_nothing_as_large_as_a_kernel_of_all_channels_is_made() -> None:
    """At 1,024 tokens of 128 channels one would hold 16 million numbers; the largest tensor is the input."""
    mixer, x, sizes = build_ssm(dim=128), draw(1, 1024, 128).float(), []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            out = func(*args, **(kwargs or {}))
            sizes.extend(each.numel() for each in (out if isinstance(out, tuple) else (out,)) if torch.is_tensor(each))
            return out

    with Watch():
        mixer(x).square().mean().backward()
    assert max(sizes) == x.numel()


def test_long_sequences_of_ssm_in_float32() -> None:
    mixer, x = build_ssm(step=0.001), 1e3 * draw(1, 8192, DIM).float()
    y = mixer(x)
    y.square().mean().backward()
    assert bool(y.isfinite().all())
    assert all(bool(p.grad.isfinite().all()) for p in mixer.parameters())
    with torch.no_grad():
        expected = mixer.double()(x.double())
    assert float((y.double() - expected).norm() / expected.norm()) < 1e-4


METHODS = ("bilinear", "zoh", "euler")


def ssm_of(rule: str) -> Recurrence:
    def recurrence(x: Array, w: Weights) -> Array:
        turned = {name: w[name].T for name in "BCD"}
        return system(x, {**w, **turned, "delta": np.exp(w["log_delta"][0])}, rule)

    return recurrence


LETTERS = {"a": "A", "log_step": "log_delta", "b.weight": "B", "c.weight": "C", "d.weight": "D"}
"""the paper's letter for each entry of the mixer's state_dict"""
EQUATIONS: dict[str, Case] = {
    **{f"ssm, {rule}": ({"kind": "ssm", "state_dim": 5, "method": rule}, ssm_of(rule)) for rule in METHODS},
}


@pytest.mark.parametrize("case", EQUATIONS)
def test_ssm_is_the_papers_recurrence(case: str) -> None:
    check_equation(*EQUATIONS[case], LETTERS)


@pytest.mark.slow
@pytest.mark.parametrize("case", EQUATIONS)
def test_ssm_is_the_papers_recurrence_over_150_tokens(case: str) -> None:
    check_long(*EQUATIONS[case], LETTERS)

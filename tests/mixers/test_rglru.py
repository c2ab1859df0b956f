"""RG-LRU's first tokens, what it begins with, and gates at the ends of their range."""

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config


def built(dtype: torch.dtype = torch.float32) -> Mixer:
    torch.manual_seed(3)
    return mixer_config({"kind": "rglru", "heads": 2}).build(8, None).to(dtype)


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
def test_the_first_token_is_each_rows_own() -> None:
    """Rows of one state that have read different numbers of tokens, one of them none."""
    mixer, x = built(torch.float64), draw(3, 6, 8)
    keep = torch.tensor([[False, False, False], [True, False, False], [True, True, True]])
    _, state = mixer.extend(x[:, :3], mixer.start(3), keep)
    y, state = mixer.step(x[:, 3], state)
    rest, _ = mixer.extend(x[:, 4:], state)
    for row, kept in enumerate((0, 1, 3)):
        tokens = torch.cat([x[row, :kept], x[row, 3:]])
        expected = mixer(tokens[None])[0, kept:]
        torch.testing.assert_close(torch.cat([y[row, None], rest[row]]), expected, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_it_is_initialized_as_the_authors_program() -> None:
    mixer = mixer_config({"kind": "rglru", "width": 4096}).build(8, None)
    rate, gates = mixer.get_parameter("rate").detach(), mixer.get_parameter("gates.weight").detach()
    square = torch.exp(-2 * torch.nn.functional.softplus(rate.double()))
    assert 0.9**2 - 1e-6 <= float(square.min()) < 0.9**2 + 0.01
    assert 0.999**2 - 0.01 < float(square.max()) <= 0.999**2 + 1e-6
    assert float(square.mean()) == pytest.approx((0.9**2 + 0.999**2) / 2, abs=0.01)
    assert float(gates.std()) == pytest.approx(1024**-0.5, rel=0.05)
    assert float(mixer.get_parameter("conv.weight").detach().std()) == pytest.approx(0.05, rel=0.1)
    assert not mixer.get_parameter("gates.bias").any()
    assert not mixer.get_parameter("conv.bias").any()


@pytest.mark.parametrize("rate", [-1e4, 0.0, 1e4])
@pytest.mark.parametrize("logit", [-1e4, 1e4])
def test_decays_of_0_and_of_1(rate: float, logit: float) -> None:
    """Outputs and gradients are finite: the root of 1 - a² = 0 has a bounded derivative."""
    mixer = built()
    with torch.no_grad():
        mixer.get_parameter("rate").fill_(rate)
        mixer.get_parameter("gates.bias").fill_(logit)
    x = draw(1, 50, 8, dtype=torch.float32).requires_grad_()
    y = mixer(x)
    y.square().sum().backward()
    assert bool(y.isfinite().all())
    assert x.grad is not None
    assert bool(x.grad.isfinite().all())
    assert all(bool(parameter.grad.isfinite().all()) for parameter in mixer.parameters() if parameter.grad is not None)


@torch.no_grad()
def test_16384_tokens_that_leave_nothing() -> None:
    """e^{-80,000} per token is 0, and so is what is left of the tokens before; inputs of 1e4 are read."""
    mixer = built()
    mixer.get_parameter("rate").fill_(1e4)
    x = 1e4 * draw(1, 16384, 8, dtype=torch.float32)
    assert bool(mixer(x).isfinite().all())
    mixer.get_parameter("gates.bias").fill_(1e6)  # r = i = 1, so a = 0
    alone = mixer(torch.cat([torch.zeros_like(x[:, :-4]), x[:, -4:]], 1))[:, -1]
    torch.testing.assert_close(mixer(x)[:, -1], alone, rtol=0, atol=0)


def test_heads_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="8 channels of the recurrence are not divisible by heads 3"):
        mixer_config({"kind": "rglru", "heads": 3}).build(8, None)

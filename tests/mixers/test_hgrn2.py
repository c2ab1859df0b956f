"""HGRN2's later layers, whose forget gates have a lower bound from a shared table; gates at the ends of their range."""

import numpy as np
import pytest
import torch
from torch import nn

import seqloom
from seqloom.analysis.count import count
from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.ops import backends
from tests.mixers.recurrences.cases import papers
from tests.mixers.recurrences.hgrn2 import bound, hgrn2

D, DEPTH = 8, 4


def built(layer: int, dtype: torch.dtype = torch.float64) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "hgrn2", "heads": 2}).build(D, None, layer=layer, depth=DEPTH).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


@pytest.mark.sample(3)
@pytest.mark.parametrize("layer", range(DEPTH))
@pytest.mark.parametrize("T", [1, 7, 40])
def test_a_layer_is_its_recurrence(layer: int, T: int) -> None:
    mixer, x = built(layer), np.random.default_rng(T).normal(size=(T, D))
    w = papers(mixer, "hgrn2")
    expected = hgrn2(x, w, 2, bound(mixer.state_dict()["shared.table"].numpy(), layer))
    with torch.no_grad():
        whole = mixer(torch.from_numpy(x)[None])[0]
        y, state = mixer.extend(torch.from_numpy(x[None, : T // 2]), mixer.start(1))
        parts = [y]
        for token in torch.from_numpy(x[T // 2 :]):
            y, state = mixer.step(token[None], state)
            parts.append(y[:, None])
    np.testing.assert_allclose(whole.numpy(), expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(torch.cat(parts, 1)[0].numpy(), expected, rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("T", [1, 2, 6])
def test_a_later_layers_price_is_the_count(T: int) -> None:
    mixer, x = built(2), torch.randn(1, T, D, dtype=torch.float64)
    with backends.use(linear_decay="reference", projection="reference"):
        result = count(lambda: mixer(x))
    price = mixer.cost(T)
    for name in ("mul", "add", "div", "exp", "other"):
        assert getattr(price, name) == getattr(result, name), name


@pytest.mark.slow
def test_the_layers_of_a_model_share_one_table() -> None:
    model = seqloom.decoder("hgrn2", vocab=11, dim=D, depth=3, context=6, heads=2)
    tables = [name for name, parameter in model.named_parameters() if parameter.shape == (3, D)]
    assert tables == ["shared.hgrn2.table"]
    model(torch.randint(11, (2, 5))).square().sum().backward()
    table = model.get_parameter(tables[0])
    assert table.grad is not None
    assert bool(table.grad.any(1).all())
    assert not table.detach().any()


@pytest.mark.parametrize("logit", [-1e4, 1e4])
@pytest.mark.parametrize("row", [-1e3, 0.0, 1e3])
@pytest.mark.parametrize("layer", [0, 1, 3])
def test_gates_and_bounds_of_0_and_of_1(layer: int, row: float, logit: float) -> None:
    """Outputs and gradients are finite."""
    mixer = built(layer, torch.float32)
    with torch.no_grad():
        mixer.get_parameter("shared.table")[layer] = row
        nn.init.constant_(mixer.get_parameter("w_f.weight"), logit)
    x = torch.rand(1, 40, D).requires_grad_()
    y = mixer(x)
    y.square().sum().backward()
    assert bool(y.isfinite().all())
    for parameter in (x, *mixer.parameters()):
        assert parameter.grad is None or bool(parameter.grad.isfinite().all())


@torch.no_grad()
def test_16384_tokens_that_leave_nothing() -> None:
    """Forget gates of 0, and inputs of 1e4: what comes out is of the last token alone."""
    mixer = built(0, torch.float32)
    x = 1e4 * torch.rand(1, 16384, D)
    nn.init.constant_(mixer.get_parameter("w_f.weight"), -1.0)
    y = mixer(x)
    assert bool(y.isfinite().all())
    torch.testing.assert_close(y[:, -1], mixer(x[:, -1:])[:, 0], rtol=1e-4, atol=1e-4)


def test_heads_that_do_not_divide() -> None:
    with pytest.raises(ValueError, match="dim 8 is not divisible by heads 3"):
        mixer_config({"kind": "hgrn2", "heads": 3}).build(D, None)

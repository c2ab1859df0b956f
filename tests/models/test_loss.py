"""The loss of a model is that of its logits: at once, in chunks, and by a head that does more than multiply."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import seqloom.mixers  # noqa: F401  # which registers every kind
from seqloom.core.model import Model
from seqloom.models.head import plain_weights
from seqloom.models.kinds import model_config
from seqloom.ops.fused import cross_entropy as losses

KINDS: dict[str, dict[str, Any]] = {
    "decoder": {"kind": "decoder"},
    "tied, without a bias": {"kind": "decoder", "tie": True, "head_bias": False},
    "norms after sublayers": {"kind": "decoder", "norm_place": "after"},
    "encoder": {"kind": "encoder", "head_layer": True},
}
SIZES: dict[str, Any] = {"vocab": 11, "dim": 8, "depth": 1, "context": 6, "ffn": 8, "dropout": 0.0, "std": 0.3}


def built(name: str) -> Model:
    torch.manual_seed(0)
    return model_config({**KINDS[name], **SIZES, "mixer": {"kind": "attention", "heads": 2}}).build().double()


def ids() -> tuple[Tensor, Tensor]:
    drawn = torch.randint(11, (3, 7), generator=torch.Generator().manual_seed(0))
    return drawn[:, :-1], drawn[:, 1:]


@pytest.mark.parametrize("least", [0, 1 << 60], ids=["in chunks", "at once"])
@pytest.mark.parametrize("name", KINDS)
def test_the_loss_is_that_of_the_logits(name: str, least: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "LEAST", least)
    monkeypatch.setattr(losses, "FEWEST", 5)
    monkeypatch.setitem(losses.CHUNK, "cpu", 1)
    model, (inputs, targets) = built(name), ids()
    parameters = [*model.parameters()]
    expected = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    actual, extras = model.loss_with_extras(inputs, targets)
    assert not extras.losses
    gradients = [torch.autograd.grad(loss, parameters) for loss in (actual, expected)]
    torch.testing.assert_close([actual, *gradients[0]], [expected, *gradients[1]], rtol=1e-12, atol=1e-12)


def test_a_head_with_a_hook_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(losses, "LEAST", 0)
    model, (inputs, targets) = built("decoder"), ids()
    assert plain_weights(model.head) is not None
    model.head.register_forward_hook(lambda *called: 2 * called[2])
    assert plain_weights(model.head) is None
    expected = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(model.loss_with_extras(inputs, targets)[0], expected)

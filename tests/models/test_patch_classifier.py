"""A classifier of patches: its equation, dropped patches, every bidirectional mixer, its price and its errors."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import layer_norm

from seqloom.mixers import kinds
from seqloom.models.kinds import model_config
from seqloom.models.patch_classifier import PatchClassifier

B, T, V = 2, 6, 12
SIZES = {"dim": 16, "depth": 2, "context": T, "ffn": 12, "std": 0.5, "dropout": 0.0}
PICTURES = {"patch": 2, "shape": (4, 6, 3), "labels": ("a", "b", "c")}
KINDS = [kind for kind, config in kinds().items() if config.traits.causal != "always" and kind != "both_ways"]


def built(mixer: dict[str, Any] | None = None, **changes: Any) -> PatchClassifier:
    torch.manual_seed(0)
    settings = {**SIZES, **PICTURES, "mixer": mixer or {"kind": "attention", "heads": 2}, **changes}
    model = model_config({"kind": "patch_classifier", **settings}).build()
    assert isinstance(model, PatchClassifier)
    return model.double().eval()


def read() -> tuple[Tensor, Tensor]:
    values = 255 * torch.rand(B, T, V, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return torch.zeros(B, T, dtype=torch.long), values


def test_what_the_layers_read_and_what_is_said() -> None:
    model = built({"kind": "fnet"}, depth=1, ffn={"kind": "none"})
    ids, values = read()
    x = (values / 127.5 - 1) @ model.of_values.weight.T + model.token.weight[0]
    assert model.position is not None
    x = x + model.position.table.weight[:T]
    block = model.blocks[0]
    x = x + block.mixer(layer_norm(x, (16,), block.norm_1.weight, block.norm_1.bias))
    z = layer_norm(x, (16,), model.norm.weight, model.norm.bias).mean(1)
    torch.testing.assert_close(model(ids, None, values), z @ model.head.weight.T + model.head.bias)


@pytest.mark.slow
@pytest.mark.sample(12)
@pytest.mark.parametrize("kind", KINDS)
def test_every_patch_is_read(kind: str) -> None:
    model = built({"kind": kind, **(kinds()[kind].examples[0] if kinds()[kind].examples else {})})
    ids, values = read()
    values.requires_grad_()
    logits = model(ids, None, values)
    assert logits.shape == (B, 3)
    (gradient,) = torch.autograd.grad(logits[0].square().sum(), values)
    assert (gradient[0].abs().sum(1) > 0).all()
    assert not gradient[1].any()


def test_dropped_patches_are_not_read() -> None:
    model = built(position="none")
    ids, values = read()
    keep = torch.ones(B, T, dtype=torch.bool)
    keep[:, 3] = False
    odd = values.clone()
    odd[:, 3] = torch.nan
    kept = torch.cat([values[:, :3], values[:, 4:]], 1)
    torch.testing.assert_close(model(ids, keep, odd), model(ids[:, 1:], None, kept))


def test_its_price_counts_its_parameters() -> None:
    for changes in ({}, {"mixer": {"kind": "mlp_mixer"}}, {"norm": "rms", "head_bias": False}):
        model = built(**changes)
        assert model.cost(T).params == sum(parameter.numel() for parameter in model.parameters())
    model = built({"kind": "fnet"})
    assert built({"kind": "fnet"}, labels=tuple("abcde")).cost(T).mul - model.cost(T).mul == 2 * 16
    wider = built({"kind": "fnet"}, shape=(4, 6, 1), patch=2)
    assert model.cost(T).mul - wider.cost(T).mul == T * 8 * 16


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda model, ids, values: model(ids), "reads numbers: give values"),
        (lambda model, ids, values: model(ids, None, values[..., :1]), "values are numbers of shape"),
        (lambda model, ids, values: model(ids, None, values.to(torch.uint8)), "values are numbers of shape"),
        (lambda model, ids, values: model.exits(ids), "leave layers out"),
        (lambda model, ids, values: model.start(2), "read on from a state"),
        (lambda model, ids, values: model.loss_with_extras(ids, ids), "predict tokens"),
        (lambda model, ids, values: model.cost(T, "token"), "no price of a patch"),
        (lambda model, ids, values: built(patch=65), "patch"),
        (lambda model, ids, values: built(embed_scale=True), "embed_scale"),
    ],
)
def test_wrong_calls(call: Any, words: str) -> None:
    ids, values = read()
    with pytest.raises(ValueError, match=words):
        call(built(), ids, values)

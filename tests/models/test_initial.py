"""Initial weights: every matrix, embedding and tap N(0, 0.01²), biases 0, norms 1 and 0; drawn from torch's seed."""

import math

import pytest
import torch
from torch import nn

from seqloom.models.decoder import Decoder, DecoderConfig
from tests.models.drawing import KINDS


def fresh(kind: str, seed: int = 0, **settings: float) -> Decoder:
    torch.manual_seed(seed)
    sizes = {"vocab": 500, "dim": 32, "depth": 2, "context": 64, "ffn": 128}
    return Decoder(DecoderConfig(**{**sizes, "mixer": {"kind": kind}, **settings}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("std", [0.01, 0.2])
def test_every_matrix_is_normal(kind: str, std: float) -> None:
    model = fresh(kind, std=std)
    norms = {id(p) for module in model.modules() if isinstance(module, nn.LayerNorm) for p in module.parameters()}
    for name, weight in model.named_parameters():
        values = weight.detach().double().flatten()
        if id(weight) in norms:
            assert bool((values == (1.0 if name.endswith("weight") else 0.0)).all()), name
        elif name.endswith("bias"):
            assert bool((values == 0).all()), name
        else:
            n = len(values)
            assert abs(float(values.mean())) < 5 * std / math.sqrt(n), f"{name}: mean {float(values.mean())}"
            assert abs(float(values.std()) - std) < 5 * std / math.sqrt(2 * n), f"{name}: std {float(values.std())}"
            if n >= 1000:
                inside = float((values.abs() < std).double().mean())
                assert abs(inside - 0.6827) < 5 * math.sqrt(0.68 * 0.32 / n), f"{name} is not normal"


def test_all_kinds_of_parameters_were_seen() -> None:
    names = {name.split(".", 2)[-1] for name, _ in fresh("he").named_parameters() if name.startswith("layers.0")}
    assert names == {
        *("norm_1.weight", "norm_1.bias", "norm_2.weight", "norm_2.bias"),
        *("ffn.w_1.weight", "ffn.w_1.bias", "ffn.w_2.weight", "ffn.w_2.bias"),
        *("mixer.w_ext", "mixer.w_in.weight", "mixer.w_adj.weight", "mixer.w_out.weight"),
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_norms_epsilon(kind: str) -> None:
    norms = [module for module in fresh(kind).modules() if isinstance(module, nn.LayerNorm)]
    assert len(norms) == 2 * 2 + 1
    assert {norm.eps for norm in norms} == {1e-5}


def test_weights_depend_on_the_seed_and_layers_differ() -> None:
    one, same, other = (dict(fresh("she", seed).named_parameters()) for seed in (0, 0, 1))
    for name, weight in one.items():
        assert weight.equal(same[name])
        if not name.endswith("bias") and "norm" not in name:
            assert not weight.equal(other[name]), name
    assert not one["layers.0.mixer.w_ext"].equal(one["layers.1.mixer.w_ext"])


def test_reset_draws_again() -> None:
    model = fresh("attention")
    before = {name: weight.clone() for name, weight in model.named_parameters()}
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(3.0)
    torch.manual_seed(0)
    model.reset()
    after = dict(model.named_parameters())
    assert all(float(weight.detach().abs().max()) < 1.1 for weight in after.values())
    name = "layers.0.mixer.w_qkv.weight"
    assert not after[name].equal(before[name])

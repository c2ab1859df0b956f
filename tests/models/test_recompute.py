"""Layers that are computed again in the backward: the same loss and gradients, of every mixer, with dropout."""

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.mixers import kinds
from seqloom.models.kinds import model_config
from seqloom.training.settings import resolve
from tests.kinds import CAUSAL

IDS = torch.randint(0, 17, (2, 8), generator=torch.Generator().manual_seed(0))


def gradients(model: Model, *inputs: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """A loss that weighs every output and auxiliary loss, and its gradients."""
    model.zero_grad()
    torch.manual_seed(3)
    output, extras = model.forward_with_extras(*inputs)
    loss = (output * torch.linspace(-1, 1, output.numel(), dtype=output.dtype).view_as(output)).sum()
    for value in extras.losses.values():
        loss = loss + value
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def assert_unchanged(model: Model, *inputs: Tensor) -> None:
    loss, plain = gradients(model, *inputs)
    model.recompute_layers()
    again, recomputed = gradients(model, *inputs)
    torch.testing.assert_close(again, loss, rtol=1e-12, atol=1e-12)
    assert recomputed.keys() == plain.keys()
    for name, gradient in plain.items():
        torch.testing.assert_close(recomputed[name], gradient, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", CAUSAL)
def test_a_decoder_of_every_mixer(kind: str) -> None:
    settings = {"kind": kind, **kinds()[kind].examples[0]}
    model = seqloom.decoder([settings], vocab=17, dim=16, depth=2, context=8, position="none", dropout=0.1).double()
    assert_unchanged(model, IDS)


@pytest.mark.parametrize("kind", ["encoder", "universal", "universal_encoder"])
def test_other_kinds(kind: str) -> None:
    mixer = {"kind": "attention", "heads": 2}
    values = {"kind": kind, "vocab": 17, "dim": 16, "depth": 2, "ffn": 16, "context": 8, "mixer": mixer}
    assert_unchanged(model_config(values).build().double(), IDS)


def test_an_encoder_and_a_decoder() -> None:
    mixer = {"kind": "attention", "heads": 2}
    values = {"kind": "seq2seq", "vocab": 17, "dim": 16, "depth": 2, "ffn": 16, "context": 8, "mixer": mixer}
    values |= {"encoder": {"depth": 2, "mixer": mixer}, "cross": mixer, "dropout": 0.1}
    model = model_config(values).build().double()
    losses = []
    for recompute in (False, True):
        model.recompute_layers(recompute)
        model.zero_grad()
        torch.manual_seed(3)
        model(IDS, source=IDS).square().mean().backward()
        losses.append([parameter.grad.clone() for parameter in model.parameters() if parameter.grad is not None])
    for plain, again in zip(*losses, strict=True):
        torch.testing.assert_close(again, plain, rtol=1e-12, atol=1e-12)


def test_tensors_that_layers_hand_on() -> None:
    model = seqloom.decoder("rwkv7", vocab=17, dim=16, depth=3, context=8, position="none", heads=2).double()
    assert_unchanged(model, IDS)


def test_only_the_inputs_of_layers_are_kept() -> None:
    """Bytes that the backward would read, of 12 layers: at most 0.35 of plain's, as the inputs and one layer are."""
    kept = []
    for recompute in (False, True):
        model = seqloom.decoder(
            "attention", vocab=17, dim=32, depth=12, context=64, heads=4, position="none", dropout=0.0
        )
        if recompute:
            model.recompute_layers()
        sizes: dict[int, int] = {}
        parameters = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}

        def keep(tensor: Tensor, sizes: dict[int, int] = sizes, own: set[int] = parameters) -> Tensor:
            storage = tensor.untyped_storage()
            if storage.data_ptr() not in own:
                sizes[storage.data_ptr()] = storage.nbytes()
            return tensor

        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            features = model.features(torch.zeros(4, 64, dtype=torch.int64))
        kept.append(sum(sizes.values()))
        del features
    assert kept[1] <= 0.35 * kept[0]


def test_it_is_refused_where_layers_are_recomputed_already() -> None:
    model = seqloom.decoder("attention", vocab=17, dim=16, depth=2, context=8, heads=2, sublayers="reversible")
    with pytest.raises(ValueError, match="sublayers=reversible computes its layers again already"):
        model.recompute_layers()


def test_it_ends_again() -> None:
    model = seqloom.decoder("he", vocab=17, dim=16, depth=2, context=8)
    before = type(model.loop)
    model.recompute_layers()
    model.recompute_layers(False)
    assert type(model.loop) is before


def test_a_run_keeps_its_identity() -> None:
    plain = resolve("tiny", [])
    assert "recompute" not in plain.model_dump(mode="json")["training"]
    assert resolve("tiny", ["training.recompute=layer"]).training.recompute == "layer"

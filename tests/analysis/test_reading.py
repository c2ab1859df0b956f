"""What each mixer of a model reads, and that it then gives what it gives in the model."""

import pytest
import torch
from torch import Tensor

from seqloom.analysis.reading import VERBS, reading_of
from seqloom.models.kinds import model_config
from seqloom.models.transformer import Transformer
from tests.kinds import FORMS

SIZES = {"vocab": 20, "dim": 8, "depth": 3, "ffn": 8, "context": 64}
IDS = torch.arange(9)[None] % 7


def built(kind: str, mixer: str, **settings: object) -> Transformer:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        config = model_config({**SIZES, "kind": kind, "mixer": {"kind": mixer}, **settings})
        model = config.build().double().eval()
    assert isinstance(model, Transformer)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2)))
    return model


@torch.no_grad()
@pytest.mark.parametrize(("kind", "causal"), FORMS)
def test_a_reading_is_that_of_the_model(kind: str, causal: bool) -> None:
    model = built("decoder" if causal else "encoder", kind, channel="none")
    embedded: list[Tensor] = []
    hook = model.blocks[0].norm_1.register_forward_pre_hook(lambda _, given: embedded.append(given[0]))
    expected = model.features(IDS)
    hook.remove()
    stream = embedded[0]
    for layer, block in enumerate(model.blocks):
        reading = reading_of(model, layer, IDS)
        torch.testing.assert_close(reading.x, block.norm_1(stream))
        stream = stream + reading(reading.x)
    torch.testing.assert_close(stream, expected)
    assert not set(VERBS) & set(vars(model.mixers[0])), "the mixer is as it was"


@torch.no_grad()
def test_layers_of_one_module_read_inputs_of_their_own() -> None:
    model = built("universal", "attention")
    inputs = [reading_of(model, layer, IDS).x for layer in range(3)]
    assert not torch.allclose(inputs[0], inputs[1])
    assert not torch.allclose(inputs[1], inputs[2])

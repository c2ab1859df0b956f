"""Initial values of whole RWKV-4: each layer by its number among the layers of its kind, in both sublayers."""

from typing import Any

import numpy as np
import torch

from seqloom.models.decoder import Decoder, DecoderConfig
from tests.models.drawing import DIM, VOCAB
from tests.models.test_rwkv_block import WHOLE


def fresh(**settings: Any) -> Decoder:
    torch.manual_seed(3)
    values = {"vocab": VOCAB, "dim": DIM, "depth": 3, "context": 6, "ffn": 16, "mixer": {"kind": "rwkv"}, **WHOLE}
    return Decoder(DecoderConfig.model_validate({**values, **settings}))


def shares(model: Decoder) -> list[tuple[float, float]]:
    """μ_k of channel 1 in both sublayers of each layer."""
    return [tuple(sublayer.get_parameter("mu_k")[1].item() for sublayer in block.sublayers) for block in model.blocks]


def test_each_layer_has_its_own_initial_values() -> None:
    model = fresh()
    expected = [((1 / DIM) ** (1 - layer / 3),) * 2 for layer in range(3)]
    np.testing.assert_allclose(shares(model), expected, rtol=1e-6)
    rates = [block.mixer.get_parameter("log_rate")[3].item() for block in model.blocks]
    np.testing.assert_allclose(rates, [-5 + 8 * (3 / 7) ** (0.7 + 1.3 * p) for p in (0, 0.5, 1)], rtol=1e-6)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(3.0)
    other = fresh()
    for one in (model, other):
        torch.manual_seed(5)
        one.reset()
    assert all(weight.equal(other.get_parameter(name)) for name, weight in model.named_parameters())
    np.testing.assert_allclose(shares(model), expected, rtol=1e-6)


def test_layers_are_counted_over_those_of_their_kind() -> None:
    mixers = [block.mixer for block in fresh(depth=5, mixer=[{"kind": "she"}, {"kind": "rwkv"}]).blocks[1::2]]
    assert [(mixer.layer, mixer.depth) for mixer in mixers] == [(0, 2), (1, 2)]
    shares = [mixer.get_parameter("mu_k")[1].item() for mixer in mixers]
    np.testing.assert_allclose(shares, [1 / DIM, (1 / DIM) ** 0.5], rtol=1e-6)

"""What whole RWKV-4 begins as: each layer as itself, in both halves, unless its settings say otherwise."""

from typing import Any

import numpy as np
import pytest
import torch

from seqloom.models.decoder import Decoder, DecoderConfig
from tests.models.drawing import DIM, VOCAB
from tests.models.test_rwkv_block import WHOLE


def fresh(**settings: Any) -> Decoder:
    torch.manual_seed(3)
    values = {"vocab": VOCAB, "dim": DIM, "depth": 3, "context": 6, "ffn": 16, "mixer": {"kind": "rwkv"}, **WHOLE}
    return Decoder(DecoderConfig.model_validate({**values, **settings}))


def shares(model: Decoder) -> list[tuple[float, float]]:
    """μ_k of channel 1 in both halves of each layer."""
    return [tuple(half.get_parameter("mu_k")[1].item() for half in block.halves) for block in model.blocks]


def test_each_layer_begins_as_itself() -> None:
    model = fresh()
    wanted = [((1 / DIM) ** (1 - layer / 3),) * 2 for layer in range(3)]
    np.testing.assert_allclose(shares(model), wanted, rtol=1e-6)
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
    np.testing.assert_allclose(shares(model), wanted, rtol=1e-6)


def test_what_was_set_stays() -> None:
    set_ones = fresh(mixer={"kind": "rwkv", "layer": 1, "depth": 4})
    assert [mixer.model_dump() for mixer in set_ones.config.mixers] == [{"kind": "rwkv", "layer": 1, "depth": 4}] * 3
    np.testing.assert_allclose([time for time, _ in shares(set_ones)], [(1 / DIM) ** 0.75] * 3, rtol=1e-6)
    given = fresh().config
    assert given.mixer.model_dump() == {"kind": "rwkv", "layer": None, "depth": None}
    assert DecoderConfig.model_validate(given.model_dump(mode="json")).mixers == given.mixers
    assert [(mixer.layer, mixer.depth) for mixer in given.mixers] == [(0, 3), (1, 3), (2, 3)]
    mixed = fresh(mixer=[{"kind": "she"}, {"kind": "rwkv"}]).config.mixers
    assert (mixed[0].kind, mixed[1].layer, mixed[1].depth, mixed[2].kind) == ("she", 1, 3, "she")
    for half in ({"layer": 0}, {"depth": 3}):
        with pytest.raises(ValueError, match="give both, or leave both to the model"):
            fresh(mixer={"kind": "rwkv", **half})

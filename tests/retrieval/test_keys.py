"""The key of a token is the input of the last feed-forward network, in every model and every verb."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.model import Model
from seqloom.models.kinds import model_config
from seqloom.retrieval.keys import Keys

SIZES: dict[str, Any] = {"vocab": 11, "dim": 8, "depth": 2, "context": 12, "ffn": 16, "dropout": 0.0, "std": 0.3}
MODELS: dict[str, dict[str, Any]] = {
    "attention": {"mixer": {"kind": "attention", "heads": 2}},
    "rwkv": {"mixer": {"kind": "rwkv"}, "channel": "channel_mix", "position": "none"},
    "mamba": {"mixer": {"kind": "mamba"}, "channel": "none", "position": "none"},
    "after": {"mixer": {"kind": "he"}, "norm_place": "after"},
    "after, no network": {"mixer": {"kind": "he"}, "norm_place": "after", "channel": "none"},
    "parallel": {"mixer": {"kind": "he"}, "sublayers": "parallel"},
    "reversible": {"mixer": {"kind": "he"}, "sublayers": "reversible"},
    "universal": {"mixer": {"kind": "he"}, "kind": "universal", "halt": True},
}


def built(name: str, seed: int = 0) -> Model:
    torch.manual_seed(seed)
    return model_config({**SIZES, **MODELS[name]}).build().double().eval()


def ids() -> Tensor:
    return torch.randint(11, (2, 9), generator=torch.Generator().manual_seed(0))


def read_by_the_last(model: Any, tokens: Tensor) -> Tensor:
    """What the last second sublayer is called with, or the output layer where there is none."""
    given: list[Tensor] = []
    channel = model.blocks[-1].ffn_sublayer
    if channel is None:
        original = model.head.forward
        model.head.forward = lambda x: (given.append(x), original(x))[1]
        model(tokens)
        del model.head.forward
    else:
        original = channel.forward_with_extras
        channel.forward_with_extras = lambda x, keep=None: (given.append(x), original(x, keep))[1]
        model(tokens)
        del channel.forward_with_extras
    return given[-1]


@pytest.mark.parametrize("name", MODELS)
def test_it_is_what_the_last_network_reads(name: str) -> None:
    model = built(name)
    with torch.no_grad():
        wanted = read_by_the_last(model, ids())
        keys = Keys(model)
        torch.testing.assert_close(keys.read(model, ids()), wanted, rtol=0, atol=0)
        model(ids())
        assert torch.equal(keys.latest, wanted)
        assert torch.equal(keys.last_token, wanted[:, -1])
        _, state = model.extend(ids()[:, :8], model.start(2))
        torch.testing.assert_close(keys.latest, wanted[:, :8], rtol=0, atol=1e-12)
        model.step(ids()[:, 8], state)
        torch.testing.assert_close(keys.last_token, wanted[:, 8], rtol=0, atol=1e-12)
        keys.close()
        before = keys.latest
        model(ids().flip(0))
        assert keys.latest is before, "it still listens"

"""A step calls its layers more directly than `forward`, and still runs hooks and forced backends."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

import seqloom
from seqloom.core.model import Model
from seqloom.layers.linear import Linear
from seqloom.ops import backends

WHOLE: dict[str, dict[str, Any]] = {
    "attention": {"heads": 2},
    "he": {},
    "rwkv": {"channel": "channel_mix", "embed_norm": True, "position": "none"},
    "mamba": {"channel": "none", "norm": "rms", "position": "none"},
}
IDS = torch.tensor([1, 3])
LAYERS = (Linear, nn.LayerNorm, nn.RMSNorm, nn.Embedding)


def model(kind: str) -> Model:
    torch.manual_seed(0)
    return seqloom.decoder(kind, vocab=11, dim=8, depth=2, context=5, dropout=0.0, **WHOLE[kind]).eval()


@pytest.mark.parametrize("kind", WHOLE)
@torch.no_grad()
def test_each_layer_calls_its_hook(kind: str) -> None:
    ours, called = model(kind), set[str]()
    expected = {name for name, layer in ours.named_modules() if isinstance(layer, LAYERS)}
    priced_apart = {name for name in expected if name.endswith("dt_proj")}  # the scan reads its weight and its bias
    for name, layer in ours.named_modules():
        if name in expected:
            layer.register_forward_hook(lambda *_, name=name: called.add(name))
    ours.step(IDS, ours.start(2), reuse=True)
    assert called == expected - priced_apart


@pytest.mark.parametrize("hook", ["of one layer", "of all modules"])
@torch.no_grad()
def test_what_a_hook_returns_is_used(hook: str) -> None:
    ours = model("he")
    expected = ours.step(IDS, ours.start(2))[0]

    def doubled(layer: nn.Module, given: Any, y: Any) -> Any:
        return 2 * y if layer is ours.head else y

    handle = (ours.head.register_forward_hook if hook == "of one layer" else register_module_forward_hook)(doubled)
    try:
        actual = ours.step(IDS, ours.start(2))[0]
    finally:
        handle.remove()
    assert torch.equal(actual, 2 * expected)
    assert torch.equal(ours.step(IDS, ours.start(2))[0], expected)


@torch.no_grad()
def test_a_forced_projection_is_what_a_step_runs() -> None:
    ours = model("he")
    with backends.use(projection="reference"), backends.record_backends() as ran:
        ours.step(IDS, ours.start(2))
    assert ran["projection"] == ["reference"]

"""Layers are called as modules, so that hooks on them run, and each compiles by itself."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.models.block import Block
from seqloom.models.config import ARRANGEMENTS
from seqloom.models.decoder import Decoder
from seqloom.models.kinds import model_config
from seqloom.models.verbs import ForwardVerb

SIZES = {"vocab": 11, "dim": 8, "depth": 3, "context": 6, "ffn": 12, "dropout": 0.0}
CHANGES: dict[str, dict[str, Any]] = {
    "plain": {},
    "after": {"norm_place": "after"},
    "parallel": {"sublayers": "parallel"},
    "gated": {"residual": "gru"},
    "alone": {"channel": "none"},
    "handing": {"mixer": {"kind": "rwkv7", "heads": 2}, "position": "none"},
    "in layers": {"position": "learned_each_layer"},
    "universal": {"kind": "universal"},
    "halting": {"kind": "universal", "halt": True},
    "reversible": {"sublayers": "reversible"},
}
IDS = torch.tensor([[1, 3, 5, 7], [2, 4, 6, 8]])


def built(name: str) -> Any:
    torch.manual_seed(0)
    mixer = {"kind": "attention", "heads": 2}
    return model_config({**SIZES, "mixer": mixer, **CHANGES[name]}).build().eval()


def doubled(block: nn.Module, given: Any, y: Tensor) -> Tensor:
    return 2 * y


def in_order(calls: list[int], model: Any) -> None:
    """Every layer appends its number when it is called."""
    for number, block in enumerate(dict.fromkeys(model.blocks)):
        block.register_forward_hook(lambda *_, number=number: calls.append(number))


@pytest.mark.parametrize("name", CHANGES)
@torch.no_grad()
def test_hooks_of_every_layer_run(name: str) -> None:
    model = built(name)
    calls: list[int] = []
    in_order(calls, model)
    expected = [0, 0, 0] if len(model.layers) == 1 else [0, 1, 2]
    model(IDS)
    assert calls == expected
    _, state = model.extend(IDS, model.start(2))
    assert calls == 2 * expected
    model.step(IDS[:, 0], state)
    assert calls == 3 * expected


@pytest.mark.parametrize("name", CHANGES)
@torch.no_grad()
def test_what_a_hook_returns_is_read_by_the_next_layer(name: str) -> None:
    model = built(name)
    before = model(IDS)
    handle = model.blocks[0].register_forward_hook(doubled)
    whole = model(IDS)
    assert not torch.allclose(whole, before)
    state = model.start(2)
    pieces = []
    for token in IDS.unbind(1):
        logits, state = model.step(token, state)
        pieces.append(logits)
    torch.testing.assert_close(torch.stack(pieces, 1), whole)
    handle.remove()
    torch.testing.assert_close(model(IDS), before, rtol=0, atol=0)


@torch.no_grad()
def test_hooks_run_where_tokens_leave_early() -> None:
    model = built("plain")
    calls: list[int] = []
    in_order(calls, model)
    model.exits(IDS)
    model.exits_at(IDS, torch.ones_like(IDS))
    assert calls == 2 * [0, 1, 2]
    model.step_until(IDS[:, 0], model.start(2), lambda before, after: True)
    assert calls == [*2 * [0, 1, 2], 0], "layers that are left out are not called"


@pytest.mark.parametrize("name", ["plain", "gated", "handing"])
def test_layers_that_are_compiled_one_by_one(name: str) -> None:
    model = built(name)
    with torch.no_grad():
        expected = model(IDS)
        for block in model.blocks:
            block.compile(backend="eager", fullgraph=True)
        torch.testing.assert_close(model(IDS), expected)


def test_a_plain_decoder_is_made_of_plain_blocks() -> None:
    model = built("plain")
    assert isinstance(model, Decoder)
    assert {type(block) for block in model.blocks} == {ARRANGEMENTS["serial"]}
    assert all(isinstance(block, Block) for block in model.blocks)


@torch.no_grad()
def test_a_block_is_called_alone() -> None:
    block = built("plain").blocks[0]
    x = torch.randn(2, 5, 8)
    call = ForwardVerb().call(0)
    h = x + block.mixer(block.norm_1(x))
    torch.testing.assert_close(block(x, call), h + block.ffn_sublayer(block.norm_2(h)))
    assert (call.record.state, dict(call.record.extras.losses)) == ((), {})

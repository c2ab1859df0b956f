"""Reversible layers: gradients of the plain stack, the same dropout in backward, and what is saved for the backward."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.config import read
from seqloom.counting.count import count
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.reversible import seed_block
from seqloom.ops.backends import known_backends, use
from seqloom.training.memory import activations
from seqloom.training.settings import resolve

SIZES = {"vocab": 11, "dim": 8, "depth": 3, "context": 12, "ffn": 16, "sublayers": "reversible"}
MIXERS: list[Any] = [
    {"kind": "attention", "heads": 2},
    {"kind": "reformer", "heads": 2, "bucket": 2, "buckets": 4, "rounds": 2},
    [{"kind": "he"}, {"kind": "routing", "heads": 2, "clusters": 2, "window": 3}],
]


def decoder(mixer: Any, **settings: Any) -> Decoder:
    torch.manual_seed(0)
    return read(DecoderConfig, {**SIZES, "mixer": mixer, "std": 0.3, **settings}).build().double()


def ids() -> Tensor:
    return torch.randint(11, (2, 12), generator=torch.Generator().manual_seed(0))


def plain(model: Decoder, tokens: Tensor, keep: Tensor | None, seed: int) -> Tensor:
    """The equation with autograd's own backward, and the same draws of dropout in the layers."""
    first = second = model._embed(tokens, model._time(tokens, tokens.new_zeros(len(tokens)), keep), keep)
    for number, block in enumerate(model.blocks):
        with seed_block(seed + 2 * number, first.device):
            first = first + block.dropout(block.mixer(block.norm_1(second), keep))
        with seed_block(seed + 2 * number + 1, first.device):
            second = second + block.dropout(block.ffn_sublayer(block.norm_2(first), keep))
    return model.logits((first + second) / 2, keep)


def gradients(model: Decoder, logits: Tensor) -> list[Tensor]:
    model.zero_grad()
    weights = torch.randn(logits.shape, generator=torch.Generator().manual_seed(1), dtype=logits.dtype)
    (logits * weights).sum().backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("mixer", MIXERS, ids=str)
def test_gradients_are_those_of_the_plain_stack(mixer: Any, dropped: bool) -> None:
    model, tokens = decoder(mixer, dropout=0.3).train(), ids()
    keep = torch.rand(tokens.shape, generator=torch.Generator().manual_seed(2)) < 0.8 if dropped else None
    torch.manual_seed(5)
    y = model(tokens, keep)
    actual = gradients(model, y)
    torch.manual_seed(5)
    model._embed(tokens, model._time(tokens, tokens.new_zeros(2), keep), keep)  # its dropout comes before the seed
    seed = int(torch.randint(2**31, ()))
    torch.manual_seed(5)
    z = plain(model, tokens, keep, seed)
    torch.testing.assert_close(y, z, rtol=0, atol=1e-12)
    expected = gradients(model, z)
    assert len(actual) == len(expected) == len(list(model.parameters()))
    for one, other in zip(actual, expected, strict=True):
        assert float((one - other).abs().max()) <= 1e-8 * max(1.0, float(other.abs().max()))


def held(depth: int, sublayers: str) -> int:
    """Bytes that autograd saves of a training pass, parameters aside."""
    model = decoder(MIXERS[0], depth=depth, sublayers=sublayers, dropout=0.1).train()
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    saved: dict[int, int] = {}

    def keep(x: Tensor) -> Tensor:
        if x.untyped_storage().data_ptr() not in own:
            saved[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        y = model(ids())
    assert y.requires_grad
    return sum(saved.values())


@pytest.mark.slow
def test_what_is_held_does_not_grow_with_the_layers() -> None:
    assert held(32, "reversible") == held(4, "reversible")
    assert held(32, "serial") > 6 * held(4, "serial")


def test_the_memory_of_a_step_is_priced_alike_at_every_depth() -> None:
    def needed(depth: int, sublayers: str) -> int:
        config = resolve("tiny", [f"model.depth={depth}", f"model.sublayers={sublayers}"])
        return activations(config.model, config.training)

    assert needed(32, "reversible") == needed(4, "reversible") < needed(4, "serial") < needed(32, "serial")


def test_extras_and_their_statistics_come_back() -> None:
    mixer = {"kind": "routing", "heads": 2, "clusters": 2, "window": 3}
    model = decoder(mixer).train()
    _, extras = model.forward_with_extras(ids())
    assert {f"layers.{n}.{name}" for n in range(3) for name in ("sums", "counts")} == extras.statistics.keys()
    assert all(not value.requires_grad for value in extras.statistics.values())


@pytest.mark.slow
def test_steps_and_price() -> None:
    model, tokens = decoder(MIXERS[0]).eval(), ids()
    with torch.no_grad():
        whole, state, logits = model(tokens), model.start(2), []
        for token in tokens.unbind(1):
            y, state = model.step(token, state)
            logits.append(y)
        torch.testing.assert_close(torch.stack(logits, 1), whole, rtol=0, atol=1e-12)
        piece, _ = model.extend(tokens, model.start(2))
        torch.testing.assert_close(piece, whole, rtol=0, atol=1e-12)
        reference = {op: "reference" for op, names in known_backends().items() if "reference" in names}
        with use(**reference):
            counted = count(lambda: model(tokens[:1]).softmax(-1))
    price = model.cost(12)
    assert (counted.mul, counted.add, counted.div, counted.exp) == (price.mul, price.add, price.div, price.exp)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"channel": "none"}, "sublayers=reversible needs two sublayers"),
        ({"norm_place": "after"}, "choose norm_place=before"),
        ({"position": "learned_each_layer"}, "which sublayers=reversible cannot"),
    ],
)
def test_settings_of_reversible_that_do_not_fit(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        decoder(MIXERS[0], **settings)


@pytest.mark.slow
def test_a_second_derivative_is_an_error() -> None:
    model = decoder(MIXERS[0]).train()
    (slope,) = torch.autograd.grad(model(ids()).square().sum(), [model.token.weight], create_graph=False)
    assert torch.isfinite(slope).all()
    with pytest.raises(RuntimeError, match="choose sublayers=serial"):
        torch.autograd.grad(model(ids()).square().sum(), [model.token.weight], create_graph=True)


def test_hooks_of_blocks_run_in_training() -> None:
    model, called = decoder({"kind": "he"}, dropout=0.0).train(), []
    for number, block in enumerate(model.blocks):
        block.register_forward_pre_hook(lambda *_, number=number: called.append(f"before {number}"))
        block.register_forward_hook(lambda *_, number=number: called.append(f"after {number}"))
    expected = gradients(model, model(ids()))
    assert called == ["before 0", "after 0", "before 1", "after 1", "before 2", "after 2"]
    handle = model.blocks[1].register_forward_hook(lambda block, given, y: 1 * y)
    with pytest.raises(ValueError, match="a hook changed a stream of reversible layers"):
        model(ids())
    handle.remove()
    assert all(torch.equal(one, other) for one, other in zip(gradients(model, model(ids())), expected, strict=True))
    with torch.no_grad():
        model.eval()(ids())
    assert len(called) > 12

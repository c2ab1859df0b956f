"""Auxiliary losses and statistics are results of a pass, under compilation, recomputation and micro-batches."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from seqloom.core.extras import Extras, add_statistics
from seqloom.data.probes import probe
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.models.verbs import ForwardVerb
from seqloom.training.objectives.probe import ProbeObjective, reads
from seqloom.training.settings import resolve
from tests.training.balancing import Balanced, BalancedConfig
from tests.training.stepping import CONTEXT, VOCAB, descent, updates, windows


def built(weight: float = 0.5, **settings: Any) -> Decoder:
    torch.manual_seed(7)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.3, "dropout": 0.0}
    return Decoder(DecoderConfig(**{**sizes, "mixer": BalancedConfig(weight=weight), **settings})).train()


def ids_of(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(1))


def same(actual: Extras, expected: Extras) -> None:
    assert actual.losses.keys() == expected.losses.keys()
    assert actual.statistics.keys() == expected.statistics.keys()
    for name, loss in expected.losses.items():
        torch.testing.assert_close(actual.losses[name], loss, rtol=1e-5, atol=1e-6)
    for name, value in expected.statistics.items():
        torch.testing.assert_close(actual.statistics[name], value, rtol=1e-5, atol=1e-6)


def test_a_model_names_extras_by_layer() -> None:
    model, ids = built(), ids_of(2, 5)
    logits, extras = model.forward_with_extras(ids)
    assert torch.equal(logits, model(ids))
    assert list(extras.losses) == ["layers.0.balance", "layers.1.balance"]
    assert list(extras.statistics) == ["layers.0.load", "layers.1.load"]
    assert model.loss_weights == {"layers.0.balance": 0.5, "layers.1.balance": 0.5}
    assert all(loss.ndim == 0 and loss.requires_grad for loss in extras.losses.values())
    assert all(float(load.sum()) == pytest.approx(10) for load in extras.statistics.values())


def test_dropped_tokens_are_in_neither() -> None:
    model, ids = built(), ids_of(1, 5)
    keep = torch.tensor([[True, True, False, True, False]])
    result = model.forward_with_extras(ids, keep)[1]
    same(result, model.forward_with_extras(ids[keep][None])[1])


def test_pieces_have_their_own_extras() -> None:
    model, ids = built(), ids_of(2, 6)
    state = model.extend(ids[:, :2], model.start(2))[1]
    logits, after, extras = model.extend_with_extras(ids[:, 2:], state)
    expected, then = model.extend(ids[:, 2:], state)
    assert torch.equal(logits, expected)
    assert torch.equal(after.extra["length"], then.extra["length"])
    whole, before = model.forward_with_extras(ids)[1], model.forward_with_extras(ids[:, :2])[1]
    assert extras.losses.keys() == whole.losses.keys()
    for name, load in extras.statistics.items():  # each token for itself
        torch.testing.assert_close(load + before.statistics[name], whole.statistics[name])


def test_a_mixer_without_any_gives_empty_ones() -> None:
    model, ids = built(mixer={"kind": "linear", "heads": 2}), ids_of(2, 5)
    logits, extras = model.forward_with_extras(ids)
    assert torch.equal(logits, model(ids))
    assert extras == Extras()
    mixer, x = model.blocks[0].mixer, torch.randn(2, 3, 8)
    y, _, extras = mixer.extend_with_extras(x, mixer.start(2))
    assert torch.equal(y, mixer.extend(x, mixer.start(2))[0])
    assert extras == Extras()


@pytest.mark.slow
def test_they_are_those_of_a_compiled_model() -> None:
    model, ids = built(), ids_of(2, 5)
    logits, extras = torch.compile(model.forward_with_extras, fullgraph=True, backend="aot_eager")(ids)
    expected, of_eager = model.forward_with_extras(ids)
    torch.testing.assert_close(logits, expected)
    same(extras, of_eager)


def gradients(model: Decoder, ids: Tensor, recompute: bool) -> list[Tensor]:
    x, total = model.token(ids), torch.zeros(())
    verb = ForwardVerb()
    for number, block in enumerate(model.blocks):
        call = verb.call(number)
        x = checkpoint(block, x, call, use_reentrant=False) if recompute else block(x, call)
        total = total + call.record.extras.losses["balance"]
    actual = torch.autograd.grad(total + x.square().mean(), list(model.layers.parameters()))
    return list(actual)


def test_they_are_those_of_a_recomputed_pass() -> None:
    model, ids = built(), ids_of(2, 5)
    for actual, expected in zip(gradients(model, ids, True), gradients(model, ids, False), strict=True):
        torch.testing.assert_close(actual, expected)


def step(model: Decoder, *changes: str) -> Decoder:
    updates(model, descent(model, 0.1), windows(), resolve("tiny", changes).training)(0)
    return model


def test_training_learns_from_the_weighted_losses_and_hands_the_sums_on() -> None:
    plain, actual = built(), step(built())
    batch = windows().batch(0, resolve("tiny").training.batch)
    logits, extras = plain.forward_with_extras(batch[:, :-1])
    loss = cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
    (loss + 0.5 * extras.losses["layers.0.balance"] + 0.5 * extras.losses["layers.1.balance"]).backward()
    for name, parameter in plain.named_parameters():
        expected = parameter.detach() - 0.1 * parameter.grad  # type: ignore[operator]
        torch.testing.assert_close(actual.get_parameter(name).detach(), expected, rtol=1e-5, atol=1e-6)
    for number, block in enumerate(actual.blocks):
        load = extras.statistics[f"layers.{number}.load"]
        assert isinstance(block.mixer, Balanced)
        torch.testing.assert_close(block.mixer.bias, -0.1 * load / load.sum())


@pytest.mark.slow
@pytest.mark.parametrize("changes", [("training.accumulate=4",), ("training.compile=true",)])
def test_pieces_of_a_batch_and_compilation_change_nothing(changes: tuple[str, ...], monkeypatch: Any) -> None:
    compiled = torch.compile
    monkeypatch.setattr(torch, "compile", lambda run, **options: compiled(run, backend="aot_eager", **options))
    expected, actual = step(built()).state_dict(), step(built(), *changes).state_dict()
    for name, value in expected.items():
        torch.testing.assert_close(actual[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("task", ["mqar", "compression"])
def test_an_objective_of_questions_passes_them_on(task: str) -> None:
    asked = probe(task)
    model = built(vocab=asked.vocab, context=reads(asked))
    objective = ProbeObjective(asked, 8, 2, seed=0)
    result = objective.losses(model, objective.batch(0, 0, model), {})
    assert result.extras.losses.keys() == model.loss_weights.keys() == {"layers.0.balance", "layers.1.balance"}
    assert result.extras.statistics.keys() == {"layers.0.load", "layers.1.load"}


def test_nothing_is_left_on_modules() -> None:
    model = built()
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    model.forward_with_extras(ids_of(2, 5))
    assert {name: dict(vars(module)) for name, module in model.named_modules()} == before


def test_sums_of_several_passes() -> None:
    one, two = torch.tensor(1.0), torch.tensor(2.0)
    assert add_statistics({}, {"a": one}) == {"a": one}
    assert add_statistics({"a": one, "b": two}, {"a": two}) == {"a": torch.tensor(3.0), "b": two}

"""Training for exits: the weighted losses of all layers, and a run that predicts well after fewer of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import seqloom
from seqloom.data.config import DataConfig
from seqloom.models.verbs import ForwardVerb
from seqloom.training.objectives.exits import ExitsConfig
from seqloom.training.settings import resolve
from tests.training.running import newest, rows, tiny
from tests.training.stepping import noise


@pytest.mark.parametrize(("weights", "shares"), [("layers", [1 / 6, 2 / 6, 3 / 6]), ("alike", [1 / 3] * 3)])
def test_the_loss_by_hand(weights: Any, shares: list[float]) -> None:
    torch.manual_seed(0)
    model = seqloom.decoder("he", vocab=31, dim=8, depth=3, context=8, ffn=16, dropout=0.0, std=0.3).double()
    objective = ExitsConfig(weights=weights).build(model.config, DataConfig(source="x"), 4, noise())
    batch = objective.batch(0, 0, model)
    inputs, targets = batch["ids"][:, :-1], batch["ids"][:, 1:].flatten()
    losses, x = [], model._embed(inputs, model._time(inputs, inputs.new_zeros(4), None), None)
    for block in model.blocks:
        x = block(x, ForwardVerb().call(0))
        losses.append(cross_entropy(model.logits(x).flatten(0, 1), targets))
    expected = sum(share * loss for share, loss in zip(shares, losses, strict=True))
    torch.testing.assert_close(objective.losses(model, batch, {}).losses["loss"], expected, rtol=0, atol=1e-12)


def test_the_loss_of_output_layers_of_their_own() -> None:
    """The last layer's output layer has the last loss alone, each other one that of its layer."""
    torch.manual_seed(0)
    sizes = {"vocab": 31, "dim": 8, "depth": 3, "context": 8, "ffn": 16, "dropout": 0.0, "std": 0.3}
    model = seqloom.decoder("he", **sizes, exit_heads="own").double()
    objective = ExitsConfig(weights="alike").build(model.config, DataConfig(source="x"), 4, noise())
    batch = objective.batch(0, 0, model)
    objective.losses(model, batch, {}).losses["loss"].backward()
    streams, _ = model.exits(batch["ids"][:, :-1])
    targets = batch["ids"][:, 1:].flatten()
    for x, head in zip(streams, [*model.exit_heads, torch.nn.Sequential(model.norm, model.head)], strict=True):
        weight = head[1].weight if isinstance(head, torch.nn.Sequential) else head.head.weight
        (expected,) = torch.autograd.grad(cross_entropy(head(x).flatten(0, 1), targets) / 3, weight, retain_graph=True)
        torch.testing.assert_close(weight.grad, expected, rtol=0, atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("heads", ["shared", "own"])
def test_mixed_training_by_hand(heads: str) -> None:
    """Each token's loss after its own layer, from `step_until`; every layer is drawn, and the draws are the step's."""
    torch.manual_seed(0)
    sizes = {"vocab": 31, "dim": 8, "depth": 3, "context": 8, "ffn": 16, "dropout": 0.0, "std": 0.3}
    model = seqloom.decoder("attention", heads=2, **sizes, exit_heads=heads).double().eval()
    objective = ExitsConfig(training="mixed", samples=2).build(model.config, DataConfig(source="x"), 4, noise())
    batch = objective.batch(0, 5, model)
    assert batch["layers"].shape == (4, 2, 8)
    assert torch.equal(batch["layers"], objective.batch(0, 5, model)["layers"])
    assert not torch.equal(batch["layers"], objective.batch(0, 6, model)["layers"])
    assert batch["layers"].unique().tolist() == [1, 2, 3]
    losses = []
    for row in range(4):
        for layers in batch["layers"][row].tolist():
            state = model.start(1)
            for position, layer in enumerate(layers):
                used = iter(range(1, 9))
                ids = batch["ids"][row : row + 1]
                logits, state, count = model.step_until(
                    ids[:, position], state, lambda x, y, used=used, layer=layer: next(used) == layer
                )
                assert count == layer
                losses.append(cross_entropy(logits, ids[:, position + 1]))
    result = objective.losses(model, batch, {}).losses["loss"]
    torch.testing.assert_close(result, torch.stack(losses).mean(), rtol=0, atol=1e-11)


def test_rows_draw_alike_in_any_batch() -> None:
    model = seqloom.decoder("he", vocab=31, dim=8, depth=3, context=8, ffn=16)
    one, four = (
        ExitsConfig(training="mixed").build(model.config, DataConfig(source="x"), rows, noise()) for rows in (1, 4)
    )
    parts = torch.cat([one.batch(0, step, model)["layers"] for step in range(4, 8)])
    assert torch.equal(four.batch(0, 1, model)["layers"], parts)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (("training.objective.training=mixed", "training.objective.weights=alike"), "weights are of aligned training"),
        (("training.objective.samples=2",), "samples are of mixed training"),
        (("model.kind=decoder", "model.exit_heads=own", "training.objective.kind=next_token"), "is not trained by"),
    ],
)
def test_settings_that_would_be_ignored(changes: tuple[str, ...], words: str) -> None:
    with pytest.raises(ValueError, match=words) as caught:
        resolve("tiny", ["training.objective.kind=exits", *changes])
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_a_run_of_mixed_training_goes_on(tmp_path: Path) -> None:
    changes = ("training.objective.kind=exits", "training.objective.training=mixed", "model.depth=3")
    changes += ("model.exit_heads=own", "training.objective.samples=2", "training.accumulate=2")
    tiny(tmp_path / "whole", *changes)
    tiny(tmp_path / "parts", *changes, "training.batches=4")
    tiny(tmp_path / "parts", *changes)
    whole, parts = (newest(tmp_path / name).tensors["model"] for name in ("whole", "parts"))
    assert any(name.startswith("exit_heads.1.") for name in whole)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    losses = [row["loss"] for row in rows(tmp_path / "whole") if "loss" in row]
    assert losses[-1] < losses[0]


@pytest.mark.slow
def test_a_run_is_trained_scored_and_resumes(tmp_path: Path) -> None:
    changes = ("training.objective.kind=exits", "model.depth=3")
    tiny(tmp_path / "whole", *changes)
    tiny(tmp_path / "parts", *changes, "training.batches=4")
    tiny(tmp_path / "parts", *changes)
    whole, parts = (newest(tmp_path / name).tensors["model"] for name in ("whole", "parts"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    scores = [row["held_out"] for row in rows(tmp_path / "whole") if "held_out" in row]
    losses = [row["loss"] for row in rows(tmp_path / "whole") if "loss" in row]
    assert scores[-1] < scores[0]
    assert losses[-1] < losses[0]


def test_packed_documents_are_errors(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind=exits reads no packed documents"):
        tiny(tmp_path / "packed", "training.objective.kind=exits", "data.packed=true")

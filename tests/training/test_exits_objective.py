"""Training for exits: the weighted losses of all layers, and a run that then predicts well after fewer of them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

import seqloom
from seqloom.data.config import DataConfig
from seqloom.training.objectives.exits import ExitsConfig
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
        x = block(x)
        losses.append(cross_entropy(model.logits(x).flatten(0, 1), targets))
    wanted = sum(share * loss for share, loss in zip(shares, losses, strict=True))
    torch.testing.assert_close(objective.losses(model, batch, {}).losses["loss"], wanted, rtol=0, atol=1e-12)


def test_a_run_is_trained_scored_and_goes_on(tmp_path: Path) -> None:
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


def test_packed_documents_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="kind=exits reads no packed documents"):
        tiny(tmp_path / "packed", "training.objective.kind=exits", "data.packed=true")

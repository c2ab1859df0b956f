"""Pseudo-likelihood: each token masked alone, windows of documents, and the command."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from seqloom.cli import command
from seqloom.core.model import Model
from seqloom.data.tokens import Tokens
from seqloom.evaluation.pseudo import score_pseudo
from seqloom.models.kinds import model_config
from tests.training.running import tiny

V, T = 12, 6


def built(kind: str = "encoder") -> Model:
    torch.manual_seed(0)
    sizes = {"vocab": V, "dim": 8, "depth": 2, "context": T, "ffn": 16, "std": 0.3, "dropout": 0.1}
    return model_config({"kind": kind, **sizes, "mixer": {"kind": "attention", "heads": 2}}).build().double()


def text() -> Tokens:
    """Documents of eight tokens and of three: windows of six, two and three."""
    ids = np.array([3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 0], np.uint16)
    return Tokens(ids, np.array([0, 8], np.int64), np.array([8, 3], np.int64))


@pytest.mark.parametrize("batch", [2, 64])
def test_each_token_is_predicted_from_all_others_of_its_window(batch: int) -> None:
    model, tokens = built(), text()
    scored = score_pseudo(model, tokens, batch=batch)
    assert model.training, "its mode stays"
    model.eval()
    losses: list[list[float]] = [[] for _ in range(T)]
    for window in ([3, 4, 5, 6, 7, 8], [9, 0], [1, 2, 0]):
        for position, token in enumerate(window):
            masked = torch.tensor([[V - 1 if index == position else id for index, id in enumerate(window)]])
            losses[position].append(float(-model(masked)[0, position].detach().log_softmax(0)[token]))
    assert scored.tokens == 11
    assert scored.loss == pytest.approx(sum(map(sum, losses)) / 11, rel=1e-9)
    assert scored.by_position == pytest.approx([sum(loss) / len(loss) for loss in losses], rel=1e-9)


def test_models_and_texts_without_a_pseudo_likelihood() -> None:
    with pytest.raises(ValueError, match="a model of kind decoder predicts no masked tokens"):
        score_pseudo(built("decoder"), text())
    with pytest.raises(ValueError, match="the text has token id 11, the model's vocabulary ends at 10"):
        score_pseudo(built(), Tokens(np.array([11, 0], np.uint16), np.zeros(1, np.int64), np.ones(1, np.int64)))


@pytest.mark.slow
def test_evaluate_by_pseudo_likelihood_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = ("model.kind=encoder", "model.mixer={kind: attention, heads: 4}", "training.batches=2")
    tiny(tmp_path / "run", *changes, "training.objective.kind=masked_token")
    (tmp_path / "text.txt").write_text("One day Tom went out. " * 3)
    words = ["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "text.txt")]
    assert command([*words, "--pseudo", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    model = seqloom.load(tmp_path / "run")
    assert row["tokens"] > 10
    assert row["held_out"] == pytest.approx(np.log(model.config.vocab), rel=0.2)
    assert command([*words, "--pseudo"]) == 0
    assert "pseudo-likelihood" in capsys.readouterr().out
    tiny(tmp_path / "decoder", "training.batches=1")
    assert command(["evaluate", str(tmp_path / "decoder"), *words[2:], "--pseudo"]) == 2
    assert "use one of model.kind=encoder" in capsys.readouterr().err

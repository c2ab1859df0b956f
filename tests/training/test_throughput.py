"""The speed of a step in its row and in words, and the norm of its gradient."""

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.analysis import peaks
from seqloom.runs.metrics import read
from seqloom.training.loop import Update, Updates
from seqloom.training.objectives.next_token import NextToken
from seqloom.training.optimizers import optimizer
from seqloom.training.settings import resolve
from seqloom.training.step import Learner
from seqloom.training.throughput import Throughput
from tests.training.running import SMALL, tiny
from tests.training.stepping import CONTEXT, decoder, noise

CARD = "NVIDIA H100 80GB HBM3"
UPDATE = Update(1, 2.0, 1e-3, seconds=0.5, compute=0.4, tokens=1000)


def throughput(monkeypatch: pytest.MonkeyPatch, precision: str = "bf16", processes: int = 1, card: str = "") -> Any:
    """That of a model which takes 10¹¹ operations a token forward, said to be on a card."""
    learner = Learner(decoder("he"), NextToken(noise(), CONTEXT, 4))
    cost = type(learner.model.cost(1))(mul=10**11 * CONTEXT)
    monkeypatch.setattr(learner.model, "cost", lambda tokens, outputs: cost)
    if card:
        monkeypatch.setattr(type(learner.model), "device", torch.device("cuda"))
        monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: card)
    return Throughput(learner, learner.objective.batch(0, 0, learner.model), precision, processes)


def test_operations_and_tokens_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """2,000 tokens a second of 3 · 10¹¹ operations each: 600 · 10¹² a second."""
    speed = throughput(monkeypatch)
    assert speed.row(UPDATE) == {"tokens_per_second": 2000.0, "tflops": 600.0}
    assert speed.note(speed.row(UPDATE)) == "2,000 tokens/s"
    assert speed.memory() == {}


def test_a_share_of_the_peak_of_a_card_that_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    speed = throughput(monkeypatch, card=CARD)
    row = speed.row(UPDATE)
    assert row["peak_share"] == pytest.approx(600 / 798, abs=1e-4)
    assert speed.note(row) == "2,000 tokens/s, 75.2% of 798 TFLOP/s"
    two = throughput(monkeypatch, card=CARD, processes=2)
    assert two.row(UPDATE)["peak_share"] == pytest.approx(300 / 798, abs=1e-4)


@pytest.mark.parametrize(("card", "precision"), [(CARD, "float32"), ("another card", "bf16")])
def test_of_other_cards_and_precisions_the_rate_is_shown(
    monkeypatch: pytest.MonkeyPatch, card: str, precision: str
) -> None:
    speed = throughput(monkeypatch, precision, card=card)
    row = speed.row(UPDATE)
    assert "peak_share" not in row
    assert speed.note(row) == "2,000 tokens/s, 600.0 TFLOP/s"
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: 5)
    assert speed.memory() == {"peak_bytes": 5}


def test_peaks_are_of_precisions_that_there_are() -> None:
    for by_precision in peaks.PEAKS.values():
        for precision, peak in by_precision.items():
            assert resolve("tiny", [f"training.precision={precision}"]).training.precision == precision
            assert peak > 1e12


@pytest.mark.parametrize("clip", [None, 0.01])
def test_the_norm_is_that_of_all_gradients_before_they_are_clipped(clip: float | None) -> None:
    """Of a mixer whose own gradients are clipped apart, too."""
    changes = ["training.batch=4", *([] if clip is None else [f"training.clip={clip}"])]
    config = resolve("tiny", changes).training
    model = decoder("adaptive_span", dropout=0.0)
    objective = NextToken(noise(), CONTEXT, 4)
    learner = Learner(model, objective)
    objective.losses(model, objective.batch(0, 0, model), {}).losses["loss"].backward()
    squares = sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None)
    model.zero_grad()
    update = Updates(learner, optimizer(model, config), config, seed=0)(0)
    assert update.norm == pytest.approx(squares**0.5, rel=1e-5)
    assert update.norm > 0.02
    assert update.tokens == 4 * CONTEXT


@pytest.mark.slow
def test_rows_and_progress_of_a_run(out: Path) -> None:
    """The tokens a second are those of the batch; the operations are three times the model's price."""
    outcome = tiny(out, "training.batches=2")
    config = resolve("tiny", [*SMALL])
    tokens = config.training.batch * config.model.context
    price = outcome.model.cost(config.model.context).total / config.model.context
    for row in (row for row in read(out / "metrics.jsonl") if "loss" in row):
        assert row["tokens_per_second"] == pytest.approx(tokens / row["seconds"], rel=1e-3, abs=0.1)
        assert row["tflops"] == pytest.approx(3 * price * row["tokens_per_second"] / 1e12, rel=1e-3)
        assert row["norm"] > 0

"""`seqloom train`, `evaluate` and `generate` of a model of numbers: trained, continued, scored, refused."""

import json
from pathlib import Path

import numpy as np
import pytest

from seqloom.runs.metrics import read
from tests.cli.conftest import Seqloom

SMALL = [
    *("--set", "training.batches=4", "--set", "training.batch=4", "--set", "model.dim=8", "--set", "model.ffn=8"),
    *("--set", "model.context=12", "--set", "model.mixer.kind=gru", "--set", "training.device=cpu"),
]


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    time = np.arange(200)
    lines = [f"{t},{np.sin(t / 3):.6f},{t % 5}" for t in time]
    path = tmp_path / "prices.csv"
    path.write_text("\n".join(["day,price,volume", *lines, ""]))
    return path


@pytest.mark.slow
def test_a_file_is_learned_and_scored(seqloom: Seqloom, prices: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train = ["train", "regressor/small", "--data", str(prices), "--set", "data.column=price,volume", "--out", str(out)]
    first = seqloom(*train, *SMALL)
    assert first.code == 0
    assert "root mean squared error: price" in first.out + first.err
    answer = seqloom("evaluate", str(out), "--data", str(prices), "--json")
    assert answer.code == 0
    row = json.loads(answer.out)
    assert row["rmse"].keys() == {"price", "volume"}
    assert row["numbers"] == 2 * 12 * ((200 - 1) // 12)
    assert "root mean squared error, volume" in seqloom("evaluate", str(out), "--data", str(prices)).out
    for words, says in (
        (["--data", "numbers:sines"], "has the columns x, and the model reads price, volume"),
        (["--data", str(prices), "--column", "price"], "has the columns price, and the model reads price, volume"),
        (["--data", str(prices), "--stride", "3"], "--stride is for text"),
    ):
        wrong = seqloom("evaluate", str(out), *words)
        assert wrong.code == 2
        assert says in wrong.err
    refused = seqloom("generate", str(out), "once")
    assert refused.code == 2
    assert "cannot generate text" in refused.err


@pytest.mark.slow
def test_a_run_in_two_parts_is_the_run_at_once(seqloom: Seqloom, tmp_path: Path) -> None:
    def train(out: Path, batches: int) -> None:
        words = ["--data", "numbers:linear:2", "--set", "training.schedule.kind=constant", "--out", str(out)]
        assert seqloom("train", "regressor/small", *words, *SMALL, "--set", f"training.batches={batches}").code == 0

    train(tmp_path / "once", 4)
    train(tmp_path / "twice", 2)
    train(tmp_path / "twice", 4)
    once, twice = (
        [row["loss"] for row in read(next((tmp_path / name).rglob("metrics.jsonl"))) if "loss" in row]
        for name in ("once", "twice")
    )
    assert once == twice
    scored = [row for row in read(next((tmp_path / "once").rglob("metrics.jsonl"))) if "held_out" in row][-1]
    assert 0 < scored["rmse_of_the_best"]["y"] < scored["rmse"]["y"]


def test_settings_that_do_not_fit(seqloom: Seqloom, tmp_path: Path) -> None:
    for words, says in (
        (["--data", "stories"], "a series of numbers is a file"),
        (["--data", "numbers:linear:4", "--set", "data.tokenizer=bytes"], "numbers have no use for data.tokenizer"),
        (["--data", "numbers:linear:4", "--set", "model.kind=decoder"], "unknown setting 'model.head'"),
        (["--data", "numbers:linear:4", "--set", "training.objective.kind=next_token"], "choose"),
    ):
        answer = seqloom("train", "regressor/small", *words, "--out", str(tmp_path / "run"))
        assert answer.code == 2, words
        assert says in answer.err
        assert answer.err.count("\n") == 1

"""metrics.jsonl is complete: a row per step, held-out rows among them, no duplicate and no gap."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.evaluation.scores import score
from seqloom.runs.metrics import read
from seqloom.runs.model import load
from seqloom.training.train import Outcome
from tests.training.running import CLOCKS, rows, tiny

pytestmark = pytest.mark.slow


def test_a_row_a_step(whole: Callable[..., Outcome]) -> None:
    outcome = whole()
    result = read(outcome.run.metrics)
    steps = [row for row in result if "loss" in row]
    assert [row["step"] for row in steps] == list(range(1, 10))
    assert all(row.keys() == {"step", "loss", "norm", *CLOCKS} for row in steps)
    assert all(0 < row["compute"] <= row["seconds"] for row in steps)
    assert [row["step"] for row in result] == sorted(row["step"] for row in result)
    held = [row for row in result if "held_out" in row]
    assert [row["step"] for row in held] == [4, 8, 9]
    assert all(row.keys() == {"step", "held_out", "bits_per_byte", "tokens", "by_position"} for row in held)
    assert {row["tokens"] for row in held} == {len(outcome.corpus.held_out)}
    assert {len(row["by_position"]) for row in held} == {16}
    assert len(result) == len(steps) + len(held)


def test_the_last_held_out_row_is_of_the_saved_model(whole: Callable[..., Outcome]) -> None:
    outcome = whole()
    model, run = load(outcome.run.folder)
    assert {"step": 9, **score(model, outcome.corpus.held_out, batch=4).row()} == rows(run.folder)[-1] | {
        "by_position": score(model, outcome.corpus.held_out, batch=4).by_position
    }
    assert outcome.score is not None
    assert outcome.score["held_out"] == rows(run.folder)[-1]["held_out"]


@pytest.mark.parametrize("every", [0, 1, 9, 20])
def test_when_the_held_out_text_is_read(out: Path, every: int) -> None:
    tiny(out, f"training.evaluate_every={every}")
    expected = [step for step in range(1, 10) if step == 9 or (every and step % every == 0)]
    assert [row["step"] for row in rows(out) if "held_out" in row] == expected


def test_rows_after_the_last_checkpoint_are_written_again(out: Path) -> None:
    tiny(out, "training.batches=4")
    path = out / "metrics.jsonl"
    whole = path.read_text()
    ahead = [json.dumps({"step": step, "loss": 0.5, "seconds": 1.0, "compute": 1.0}) for step in (5, 6)]
    path.write_text(whole + "\n".join(ahead) + '\n{"step": 7, "co')
    messages: list[str] = []
    tiny(out, say=messages.append)
    assert any("torn" in line for line in messages)
    losses = [row for row in rows(out) if "loss" in row]
    assert [row["step"] for row in losses] == list(range(1, 10))
    assert all(row["loss"] > 1 for row in losses)
    assert path.read_text().startswith(whole)


def test_a_run_that_is_cut_to_what_it_had_done_is_scored(out: Path) -> None:
    tiny(out, "training.batches=4", "training.save_every=2")
    (out / "checkpoints" / "step_00000004").rename(out / "elsewhere")
    outcome = tiny(out, "training.batches=2", "training.save_every=2")
    assert outcome.score is not None
    assert [row["step"] for row in rows(out)] == [1, 2, 2]
    assert tiny(out, "training.batches=2", "training.save_every=2").summary == outcome.summary
    assert [row["step"] for row in rows(out)] == [1, 2, 2], "it is scored once"
    assert [row["step"] for row in rows(out)] == [1, 2, 2]

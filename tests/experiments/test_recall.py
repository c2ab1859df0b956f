"""Recall: a grid of small models on probes, kept cell by cell, the same whether or not it was interrupted."""

import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from seqloom.cli import command
from seqloom.data.probes import HELD_OUT, PROBES, probe
from seqloom.experiments import recall_cell
from seqloom.experiments.compare import Stopped
from seqloom.experiments.contenders import contender
from seqloom.experiments.recall import recall
from seqloom.experiments.recall_model import IGNORED, Answers, Batches, reads
from seqloom.experiments.recall_scores import score, standing
from seqloom.models.decoder import DecoderConfig

TWO = [contender("attention:heads=2"), contender("me")]
TINY: dict[str, Any] = {"dims": [8], "batches": 12, "batch": 8, "lrs": [3e-3], "say": lambda line: None}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall_cell, "ROWS", 32)
    monkeypatch.setattr(recall_cell, "CHECKED", 8)
    monkeypatch.setattr(recall_cell, "CHECK", 5)


def answers(name: str, mixer: str = "attention", dim: int = 16) -> Answers:
    task = probe(name)
    config = DecoderConfig(
        vocab=task.vocab, dim=dim, depth=1, context=reads(task), ffn=16, dropout=0, mixer={"kind": mixer}
    )
    return Answers(config, task)


def test_every_cell_is_kept_and_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = recall(TWO, ["mqar", "parity:length=6"], [1, 2], tmp_path, seeds=2, **TINY)
    whole = [row for row in rows if row["distance"] is None]
    assert len(whole) == 2 * 2 * 2 * 2
    assert {row["probe"] for row in rows} == {"mqar", "parity:length=6"}
    for row in whole:
        parts = [each for each in rows if each["distance"] and all(each[k] == row[k] for k in KEYS)]
        assert row["asked"] == sum(part["asked"] for part in parts) == 32 * (row["asked"] // 32)
        assert row["right"] == sum(part["right"] for part in parts)
        assert row["accuracy"] == row["right"] / row["asked"]
        assert row["batches"] == 12
    written = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert sorted(map(str, written)) == sorted(map(str, rows))
    assert not list(tmp_path.rglob("checkpoints"))
    monkeypatch.setattr(recall_cell, "updates", None)  # whoever trains again, fails
    again = recall(TWO, ["mqar", "parity:length=6"], [1, 2], tmp_path, seeds=2, **TINY)
    assert again == rows


KEYS = ("mixer", "probe", "difficulty", "seed", "dim", "lr")


@pytest.mark.parametrize("saving", [4, 1000])
def test_a_signal_stops_it_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saving: int) -> None:
    more = {**TINY, "changes": [f"training.save_every={saving}", "model.dropout=0.1"]}
    real = recall_cell.updates
    costs: list[tuple[int, float]] = []
    interrupt = False

    def noted(model, adam, batches, training):
        update = real(model, adam, batches, training)

        def step(number: int):
            if interrupt and number == 6:
                os.kill(os.getpid(), signal.SIGINT)
            done = update(number)
            costs.append((number, done.cost))
            return replace(done, seconds=1.0)

        return step

    monkeypatch.setattr(recall_cell, "updates", noted)
    whole = recall(TWO, ["compression"], [1], tmp_path / "whole", **more)
    known, interrupt = costs.copy(), True
    costs.clear()
    with pytest.raises(Stopped, match=r"goes on with compression-1/attention-heads=2") as stopped:
        recall(TWO, ["compression"], [1], tmp_path / "cut", **more)
    assert stopped.value.code == 130
    assert [path.name for path in (tmp_path / "cut").rglob("step_*")] == ["step_00000007"]
    interrupt = False
    assert recall(TWO, ["compression"], [1], tmp_path / "cut", **more) == whole
    assert {row["seconds"] for row in whole} == {12.0}
    assert costs == known
    assert [number for number, _ in costs] == [*range(12), *range(12)]


def test_a_signal_at_the_end_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = recall_cell.score

    def interrupted(*given, **named):
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(recall_cell, "CHECK", 1000)
        patch.setattr(recall_cell, "score", interrupted)
        with pytest.raises(Stopped) as stopped:
            recall(TWO, ["copying"], [1], tmp_path, **TINY)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert [path.parent.parent.name for path in tmp_path.rglob("rows.json")] == ["attention-heads=2"]
    assert len([row for row in recall(TWO, ["copying"], [1], tmp_path, **TINY) if row["distance"] is None]) == 2


def test_training_ends_once_the_probe_is_solved(tmp_path: Path) -> None:
    more = {**TINY, "dims": [16], "batches": 1000, "batch": 64, "lrs": [1e-2]}
    (row, *_) = recall([contender("attention:heads=1")], ["parity:length=2"], [1], tmp_path, **more)
    assert row["accuracy"] == 1.0
    assert row["batches"] < 1000
    assert row["batches"] % 5 == 0


def test_a_mixer_that_diverges_is_a_row_and_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = recall(TWO, ["copying"], [1], tmp_path, **{**TINY, "lrs": [1e30, 1e-3]})
    failed = [row for row in rows if row["accuracy"] is None]
    assert [row["mixer"] for row in failed] == ["attention-heads=2", "me"]
    assert all("stopped at step" in row["failed"] for row in failed)
    best = standing(rows)
    assert [row["lr"] for row in best] == [1e-3, 1e-3]
    assert len(best) == 2


@pytest.mark.parametrize("name", PROBES)
def test_all_read_the_same_rows_and_none_that_is_judged(name: str) -> None:
    task = probe(name)
    batches = Batches(task, seed=5)
    batch = batches.batch(3, 4)
    asked = task.questions(5, 3, 4)
    assert batch.shape == (4, 2, task.places)
    assert torch.equal(batch[:, 0], torch.from_numpy(asked.tokens))
    assert torch.equal(batch[:, 1] != IGNORED, torch.from_numpy(asked.scored))
    assert (batch[:, 1] != torch.from_numpy(task.questions(5, HELD_OUT + 3, 4).targets)).any()


def test_looks_in_training_ask_other_questions_than_the_judgement(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training ends when a look says solved, so that a judgement by the same questions would be partly luck."""
    kind = type(probe("copying"))
    real, steps = kind.questions, []

    def noted(task, seed: int, step: int, rows: int):
        steps.append(step)
        return real(task, seed, step, rows)

    monkeypatch.setattr(kind, "questions", noted)
    recall(TWO[:1], ["copying"], [1], tmp_path, **TINY)
    asked = [step for step in steps if step >= HELD_OUT]
    looks, judged = asked[:-4], asked[-4:]  # a look every 5 of 12 batches, at 8 rows; then 32 rows, 8 at a time
    assert judged == [HELD_OUT + n for n in range(4)]
    assert len(looks) == 2
    assert not set(looks) & set(judged)


@pytest.mark.parametrize("name", PROBES)
def test_a_perfect_model_is_scored_so(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a model says is counted at its distance: answers read off the questions are all right, others wrong."""
    task, model = probe(name), answers(name)
    known = {}
    for step in range(3):
        asked = task.questions(1, HELD_OUT + step, 4)
        known |= {row.tobytes(): right for row, right in zip(asked.tokens, asked.targets, strict=True)}

    def told(ids: torch.Tensor, shift: torch.Tensor | int = 0) -> torch.Tensor:
        right = torch.stack([torch.from_numpy(known[row[0].numpy().tobytes()]) for row in ids])
        return torch.nn.functional.one_hot((right + shift) % task.vocab, task.vocab).float()

    monkeypatch.setattr(model, "forward", told)
    good = score(model, task, 1, 12, batch=4)
    assert good.accuracy == 1.0
    assert good.rows()[0]["asked"] == sum(row["asked"] for row in good.rows()[1:]) > 0
    monkeypatch.setattr(model, "forward", lambda ids: told(ids, 1))
    assert score(model, task, 1, 12, batch=4).accuracy == 0.0
    scored = torch.from_numpy(task.questions(1, HELD_OUT, 4).scored)
    if len({tuple(row) for row in scored.tolist()}) == 1:  # the same places in each row: right where nothing is asked
        monkeypatch.setattr(model, "forward", lambda ids: told(ids, scored.long()))
        assert score(model, task, 1, 12, batch=4).accuracy == 0.0


def test_a_summary_is_all_that_is_read() -> None:
    """What stands after the sign changes nothing, and every answer comes through the one place."""
    model, task = answers("compression"), probe("compression")
    ids = Batches(task, 0).batch(0, 3)[:, :-1]
    assert task.summary == 4
    other = ids.clone()
    other[:, :, 5:] = 3
    said = model(ids)
    assert torch.equal(said, model(other))
    assert said.shape == (3, 9, task.vocab)
    assert not said[:, :5].any()
    seen: list[torch.Tensor] = []
    assert model.unpack is not None
    model.unpack.register_forward_pre_hook(lambda part, given: seen.append(given[0]))
    model(ids)
    assert [tuple(x.shape) for x in seen] == [(3, 16)]


def test_only_questions_cost() -> None:
    model, task = answers("mqar"), probe("mqar")
    batch = Batches(task, 0).batch(0, 4)
    logits = model(batch[:, :-1])
    asked = torch.from_numpy(task.questions(0, 0, 4).scored)
    wanted = -logits.log_softmax(2)[asked].gather(1, batch[:, 1][asked][:, None]).mean()
    torch.testing.assert_close(cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()), wanted)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["recall", "attention:heads=2", "me", "--probe", "copying", "--difficulty", "1..2", "--dim", "8"]
    words += ["--batches", "6", "--batch", "4", "--out", str(tmp_path / "x")]
    assert command(words) == 0
    out = capsys.readouterr().out
    assert "copying at difficulty 1 (count 4, words 16): chance is 6.2%" in out
    assert "copying at difficulty 2 (count 8, words 16): chance is 6.2%" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("attention", "me "))].count("me") == 2
    assert (tmp_path / "x" / "rows.jsonl").read_text().count("\n") == 2 * 2 * 2
    assert command([*words, "--set", "training.weight_decay=0.5"]) == 2
    assert "holds a run of other settings: training.weight_decay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["attentoin"], "did you mean 'attention'?"),
        (["me", "--probe", "mqr"], "did you mean 'mqar'?"),
        (["me", "--probe", "mqar:pairs=9"], "length of 27 or more"),
        (["me", "--difficulty", "0"], "1 … 15, not 0"),
        (["me", "--difficulty", "4..2"], "as 3, 1..4 or 1,3,5"),
        (["me", "--difficulty", "x"], "as 3, 1..4 or 1,3,5"),
        (["me", "me"], "mixers that differ"),
        (["me", "--probe", "parity", "--probe", "parity"], "probes that differ"),
        (["me", "--difficulty", "1,1"], "difficulties that differ"),
        (["me", "--lr", "0.1", "--lr", "0.1"], "learning rates that differ"),
        (["me", "--lr", "0"], "training.lr"),
        (["me", "--seeds", "0"], "seeds must be at least 1"),
        (["attention:heads=3", "--dim", "8"], "not divisible by heads 3"),
        (["me", "--batches", "0"], "training.batches"),
        (["me", "--dim", "131072", "--set", "model.ffn=1048576"], "choose a smaller model.dim"),
        (["me", "--set", "training.device=tpu"], "tpu"),
        (["me", "--out", " "], "the folder has no name"),
    ],
)
def test_what_the_command_refuses(
    tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["recall", "--out", str(tmp_path / "x"), *words]) == 2
    said = capsys.readouterr().err
    assert says in said
    assert said.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_attention_recalls_what_fixed_taps_and_small_states_cannot(tmp_path: Path, monkeypatch: Any) -> None:
    """Zoology's finding (arXiv:2312.04927), Figure 2, in minutes: 8 pairs, 32 channels."""
    monkeypatch.setattr(recall_cell, "ROWS", 512)
    monkeypatch.setattr(recall_cell, "CHECKED", 512)
    monkeypatch.setattr(recall_cell, "CHECK", 100)
    names = ("attention:heads=1", "he", "we", "me", "mamba:state_dim=4", "rwkv")
    rows = recall([contender(name) for name in names], ["mqar"], [2], tmp_path, dims=[32], batches=1500)
    right = {row["mixer"]: row["accuracy"] for row in rows if row["distance"] is None}
    assert right.pop("attention-heads=1") > 0.99
    assert max(right.values()) < 0.5

"""Recall: a grid of small models on probes, stored cell by cell, with equal rows after an interruption."""

import math
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.cli import command
from seqloom.core.extras import Extras
from seqloom.data.probes import HELD_OUT, PROBES, probe
from seqloom.evaluation.answers import Score
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.studies import results
from seqloom.studies import study as experiment
from seqloom.studies.candidates import Candidate, parse_candidate
from seqloom.studies.probe_cell import Answers
from seqloom.studies.recall import Recall
from seqloom.studies.runner import run
from seqloom.studies.study import Stopped
from seqloom.training import session as training
from seqloom.training.objectives import probe as objectives
from seqloom.training.objectives.probe import IGNORED, ProbeObjective, reads
from seqloom_studies.recall.table import rank_mixers

TWO = [parse_candidate("attention:heads=2"), parse_candidate("me")]
TINY: dict[str, Any] = {"dims": [8], "batches": 12, "batch": 8, "lrs": [3e-3]}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(objectives, "ROWS", 32)
    monkeypatch.setattr(objectives, "CHECKED", 8)
    monkeypatch.setattr(objectives, "CHECK", 5)


def recall(
    mixers: list[Candidate], probes: list[str], difficulties: list[int], out: Path, **more: Any
) -> list[Answers]:
    return run(Recall(mixers, probes, difficulties, **more).study, out).of(Answers)


def asked_of(name: str, seed: int = 0) -> tuple[Decoder, ProbeObjective]:
    """A small model, and a probe as its objective with 4 rows per step."""
    task = probe(name)
    config = DecoderConfig(
        vocab=task.vocab, dim=16, depth=1, context=reads(task), ffn=16, dropout=0, mixer={"kind": "attention"}
    )
    return Decoder(config), ProbeObjective(task, 16, 4, seed)


@pytest.mark.slow
def test_every_cell_is_stored_and_trained_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = recall(TWO, ["mqar", "parity:length=6"], [2], tmp_path, seeds=2, **TINY)
    whole = [row for row in rows if row.distance is None]
    assert len(whole) == 2 * 2 * 2
    assert {row.probe for row in rows} == {"mqar", "parity:length=6"}
    for row in whole:
        parts = [each for each in rows if each.distance and all(getattr(each, k) == getattr(row, k) for k in KEYS)]
        assert row.asked == sum(part.asked for part in parts) == 32 * (row.asked // 32)
        assert row.right == sum(part.right for part in parts)
        assert row.accuracy == row.right / row.asked
        assert row.batches == 12
    lines = results.read(tmp_path)
    assert len(lines) == len(rows)
    assert {line["cell"] for line in lines} == {path.parent.relative_to(tmp_path).as_posix() for path in
                                                tmp_path.rglob("rows.json")}  # fmt: skip
    assert not list(tmp_path.rglob("checkpoints"))
    monkeypatch.setattr(experiment, "train", None)  # whoever trains again, fails
    again = recall(TWO, ["mqar", "parity:length=6"], [2], tmp_path, seeds=2, **TINY)
    assert again == rows


KEYS = ("mixer", "probe", "difficulty", "seed", "dim", "lr")


@pytest.mark.slow
@pytest.mark.parametrize("saving", [4, 1000])
def test_a_signal_stops_it_and_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, saving: int) -> None:
    more = {**TINY, "changes": [f"training.save_every={saving}", "model.dropout=0.1"]}
    real = training.Updates.__call__
    losses: list[tuple[int, float]] = []
    interrupt = False

    def noted(updates: training.Updates, number: int):
        if interrupt and number == 6:
            os.kill(os.getpid(), signal.SIGINT)
        done = real(updates, number)
        losses.append((number, done.loss))
        return replace(done, seconds=1.0)

    monkeypatch.setattr(training.Updates, "__call__", noted)
    whole = recall(TWO, ["compression"], [1], tmp_path / "whole", **more)
    known, interrupt = losses.copy(), True
    losses.clear()
    with pytest.raises(Stopped, match=r"continues with compression-1/attention-heads=2") as stopped:
        recall(TWO, ["compression"], [1], tmp_path / "cut", **more)
    assert stopped.value.code == 130
    assert max(path.name for path in (tmp_path / "cut").rglob("step_*")) == "step_00000007"
    interrupt = False
    assert recall(TWO, ["compression"], [1], tmp_path / "cut", **more) == whole
    assert {row.seconds for row in whole} == {12.0}
    assert losses == known
    assert [number for number, _ in losses] == [*range(12), *range(12)]


@pytest.mark.slow
def test_a_signal_at_the_end_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = objectives.score

    def interrupted(*given, **named) -> Score:
        os.kill(os.getpid(), signal.SIGTERM)
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(objectives, "CHECK", 1000)
        patch.setattr(objectives, "score", interrupted)
        with pytest.raises(Stopped) as stopped:
            recall(TWO, ["copying"], [1], tmp_path, **TINY)
    assert stopped.value.code == 128 + signal.SIGTERM
    assert [path.parent.parent.name for path in tmp_path.rglob("rows.json")] == ["attention-heads=2"]
    assert len([row for row in recall(TWO, ["copying"], [1], tmp_path, **TINY) if row.distance is None]) == 2


@pytest.mark.slow
def test_training_ends_once_the_probe_is_solved(tmp_path: Path) -> None:
    more = {**TINY, "dims": [16], "batches": 1000, "batch": 64, "lrs": [1e-2]}
    (row, *_) = recall([parse_candidate("attention:heads=1")], ["parity:length=2"], [1], tmp_path, **more)
    assert row.accuracy == 1.0
    assert row.batches < 1000
    assert row.batches % 5 == 0


@pytest.mark.slow
def test_a_mixer_that_diverges_is_a_row_and_does_not_abort_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = recall(TWO, ["copying"], [1], tmp_path, **{**TINY, "lrs": [1e30, 1e-3]})
    failed = [row for row in rows if row.accuracy is None]
    assert [row.mixer for row in failed] == ["attention-heads=2", "me"]
    assert all("stopped at step" in (row.failed or "") for row in failed)
    best = rank_mixers(rows)
    assert [row.lr for row in best] == [1e-3, 1e-3]
    assert len(best) == 2


@pytest.mark.parametrize("name", PROBES)
def test_all_read_the_same_rows_and_none_that_is_judged(name: str) -> None:
    model, objective = asked_of(name)
    task = objective.probe
    batch = objective.batch(5, 3, model)
    asked = task.questions(5, 3, 4)
    assert batch["ids"].shape == batch["targets"].shape == (4, task.row_tokens)
    assert torch.equal(batch["ids"], torch.from_numpy(asked.tokens))
    assert torch.equal(batch["targets"] != IGNORED, torch.from_numpy(asked.scored_positions))
    assert objective.targets(batch) == asked.scored_positions.sum()
    assert (batch["targets"] != torch.from_numpy(task.questions(5, HELD_OUT + 3, 4).targets)).any()


@pytest.mark.slow
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
    monkeypatch.setattr(objectives, "ROWS", 12)
    model, objective = asked_of(name, seed=1)
    task = objective.probe
    known = {}
    for step in range(3):
        asked = task.questions(1, HELD_OUT + step, 4)
        known |= {row.tobytes(): right for row, right in zip(asked.tokens, asked.targets, strict=True)}

    def expected(ids: torch.Tensor, shift: torch.Tensor | int = 0) -> torch.Tensor:
        right = torch.stack([torch.from_numpy(known[row.numpy().tobytes()]) for row in ids])
        return torch.nn.functional.one_hot((right + shift) % task.vocab, task.vocab).float()

    def score(shift: torch.Tensor | int) -> dict[str, Any]:
        monkeypatch.setattr(objective, "answers", lambda model, ids: (expected(ids, shift), Extras()))
        return objective.score(model, None)

    good = score(0)
    assert good["accuracy"] == 1.0
    assert good["answers"][0]["asked"] == sum(row["asked"] for row in good["answers"][1:]) > 0
    assert good["held_out"] == pytest.approx(math.log1p((task.vocab - 1) / math.e))
    assert score(1)["accuracy"] == 0.0
    scored = torch.from_numpy(task.questions(1, HELD_OUT, 4).scored_positions)
    if (
        len({tuple(row) for row in scored.tolist()}) == 1
    ):  # the same positions in each row: right where nothing is asked
        assert score(scored.long())["accuracy"] == 0.0


def test_a_summary_is_all_that_is_read() -> None:
    """Tokens after the sign change nothing, and every answer comes through the one position."""
    model, objective = asked_of("compression")
    task = objective.probe
    ids = objective.batch(0, 0, model)["ids"]
    assert task.summary == 4
    other = ids.clone()
    other[:, 5:] = 3
    answers, _ = objective.answers(model, ids)
    assert torch.equal(answers, objective.answers(model, other)[0])
    assert answers.shape == (4, 9, task.vocab)
    assert not answers[:, :5].any()
    seen: list[torch.Tensor] = []
    assert objective.unpack is not None
    objective.unpack.register_forward_pre_hook(lambda part, given: seen.append(given[0]))
    objective.answers(model, ids)
    assert [tuple(x.shape) for x in seen] == [(4, 16)]


def test_only_questions_cost() -> None:
    model, objective = asked_of("mqar")
    batch = objective.batch(0, 0, model)
    logits = model(batch["ids"])
    asked = torch.from_numpy(objective.probe.questions(0, 0, 4).scored_positions)
    expected = -logits.log_softmax(2)[asked].gather(1, batch["targets"][asked][:, None]).mean()
    actual = objective.losses(model, batch, {})
    torch.testing.assert_close(actual.losses, {"loss": expected})
    assert actual.carried == {}


@pytest.mark.slow
def test_study_recall_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "recall", "attention:heads=2", "me", "--probe", "copying", "--difficulty", "1..2", "--dim", "8"]
    words += ["--batches", "6", "--batch", "4", "--out", str(tmp_path / "x")]
    assert command(words) == 0
    out = capsys.readouterr().out
    assert "copying at difficulty 1 (count 4, words 16): chance is 6.2%" in out
    assert "copying at difficulty 2 (count 8, words 16): chance is 6.2%" in out
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("attention", "me "))].count("me") == 2
    assert (tmp_path / "x" / "results.jsonl").read_text().count("\n") == 2 * 2 * 2
    assert command([*words, "--set", "training.weight_decay=0.5"]) == 2
    assert "holds a run of other settings: training.weight_decay" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["attentoin"], "did you mean 'attention'?"),
        (["me", "--probe", "mqr"], "did you mean 'mqar'?"),
        (["me", "--probe", "mqar:pairs=9"], "length of 27 or more"),
        (["me", "--difficulty", "0"], "1 … 15, not 0"),
        (["me", "--difficulty", "4..2"], "e.g. 3, 1..4 or 1,3,5"),
        (["me", "--difficulty", "x"], "e.g. 3, 1..4 or 1,3,5"),
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
def test_wrong_calls_of_the_command(
    tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["study", "recall", "--out", str(tmp_path / "x"), *words]) == 2
    output = capsys.readouterr().err
    assert says in output
    assert output.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.mark.slow
def test_attention_recalls_what_fixed_taps_and_small_states_cannot(tmp_path: Path, monkeypatch: Any) -> None:
    """Zoology's finding (arXiv:2312.04927), Figure 2, in minutes: 8 pairs, 32 channels."""
    monkeypatch.setattr(objectives, "ROWS", 512)
    monkeypatch.setattr(objectives, "CHECKED", 512)
    monkeypatch.setattr(objectives, "CHECK", 100)
    names = ("attention:heads=1", "he", "we", "me", "mamba:state_dim=4", "rwkv")
    rows = recall([parse_candidate(name) for name in names], ["mqar"], [2], tmp_path, dims=[32], batches=1500)
    right = {row.mixer: row.accuracy or 0.0 for row in rows if row.distance is None}
    assert right.pop("attention-heads=1") > 0.99
    assert max(right.values()) < 0.5


@pytest.mark.slow
def test_a_harder_setting_is_run_only_after_the_easier_one_is_solved(tmp_path: Path) -> None:
    more: dict[str, Any] = {**TINY, "dims": [16], "batches": 1000, "batch": 64, "lrs": [1e-2]}
    names = [parse_candidate("attention:heads=1"), parse_candidate("identity")]
    grid = Recall(names, ["parity:length=2"], [1, 2], climb=True, solved=0.99, **{**more, "batches": 300})
    stages = list(grid.stages(results.Results(tmp_path)))
    assert [len(stage) for stage in stages] == [2, 2]  # for the plan, before anything is known
    rows = run(grid.study, tmp_path).of(Answers)
    whole = [(row.mixer, row.difficulty) for row in rows if row.distance is None]
    assert whole == [("attention-heads=1", 1), ("identity", 1), ("attention-heads=1", 2)]


@pytest.mark.slow
def test_a_model_is_asked_about_longer_rows_than_it_learned(tmp_path: Path) -> None:
    (whole, *parts) = recall([parse_candidate("gru")], ["parity:length=4"], [1], tmp_path, **TINY, test="length=12")
    assert whole.test == {"length": 12}
    assert whole.settings == {"length": 4}
    assert whole.asked == 32 * 11
    assert parts[-1].distance == (9, 16)
    assert whole.state_bytes == 2 * 8 * 4  # layers, units, bytes
    with pytest.raises(ValueError, match="has other tokens than"):
        recall([parse_candidate("gru")], ["permutations:length=4"], [1], tmp_path / "other", **TINY, test="things=3")


@pytest.mark.slow
def test_permutations_are_learned_by_a_state_that_is_replaced(tmp_path: Path) -> None:
    more: dict[str, Any] = {**TINY, "dims": [32], "batches": 400, "batch": 64, "lrs": [1e-2]}
    (row, *_) = recall([parse_candidate("gru")], ["permutations:length=4,things=3"], [1], tmp_path, **more)
    assert row.accuracy is not None
    assert row.accuracy > 0.95

"""The commands work, at sizes that take seconds."""

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import command, run
from seqloom.cli.app import app
from seqloom.data.corpora import read
from seqloom.runs.layout import find_run, open_run
from tests.cli.conftest import STEP, TINY, Answer

Seqloom = Callable[..., Answer]
NAMES = (
    *("list", "settings", "cost", "train", "generate", "evaluate", "data", "compare", "demo"),
    *("study", "swap", "report", "bench", "doctor", "knn", "export", "runs", "verify"),
)
"""the commands and groups, of which 18 are the most that a reader looks through"""

COLOR = r"\x1b\[(?:\d+;)*3[0-7]m"


def test_there_are_at_most_eighteen_commands() -> None:
    commands = [
        registered_command.name or registered_command.callback.__name__
        for registered_command in app.registered_commands
        if registered_command.callback
    ]
    groups = [registered_group.name for registered_group in app.registered_groups]
    assert {*commands, *groups} == {*NAMES}
    assert len(NAMES) <= 18


@pytest.mark.slow
def test_train_then_nothing_is_left_to_do(seqloom: Seqloom, tmp_path: Path) -> None:
    first = seqloom(*TINY, "--out", tmp_path / "run")
    assert first.code == 0
    assert first.out.startswith(f"{tmp_path / 'run'}: {STEP} batches, held-out loss 5.")
    assert "nats a token" in first.out
    assert "42,828 parameters" in first.err
    again = seqloom(*TINY, "--out", tmp_path / "run")
    assert (again.code, again.out) == (0, first.out)
    assert again.err.endswith(f"is trained: all {STEP} batches are done\n")
    more = seqloom("train", "tiny", "--set", f"training.batches={STEP + 1}", "--out", tmp_path / "run")
    assert more.code == 0
    assert f"going on after step {STEP} of {STEP + 1}" in more.err


@pytest.mark.slow
def test_train_from_another_run(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    answer = seqloom(*TINY, "--from", trained, "--out", tmp_path / "run")
    assert answer.code == 0, answer.err
    assert f"tensors are those of {trained}, step {STEP}\n" in answer.err
    wrong = seqloom(*TINY, "--from", "nowhere", "--out", tmp_path / "other")
    assert (wrong.code, wrong.err.count("\n")) == (2, 1)
    assert "nowhere does not exist" in wrong.err
    assert not (tmp_path / "other").exists()


@pytest.mark.slow
def test_the_data_of_a_run_is_taken_word_for_word(seqloom: Seqloom, tmp_path: Path) -> None:
    text = tmp_path / "2024: null #1.txt"
    text.write_text("\n\n".join(document.text for document in read("stories:30")))
    answer = seqloom(*TINY, "--out", tmp_path / "run", "--data", text)
    assert answer.code == 0, answer.err
    assert str(text) in answer.err


@pytest.mark.slow
def test_a_preset_file(seqloom: Seqloom, tmp_path: Path) -> None:
    preset = tmp_path / "mine.yaml"
    preset.write_text(
        "model: {dim: 8, depth: 1, context: 8, ffn: 8, mixer: {kind: me}}\n"
        "data: {source: 'stories:60', vocab: 260}\n"
        "training: {batches: 2, batch: 2, lr: 1e-3, betas: [0.9, 0.95]}\n"
    )
    assert seqloom("train", preset, "--out", tmp_path / "run", "--set", "model.ffn=16").code == 0
    settings = find_run(tmp_path / "run").settings
    assert settings["model"]["mixer"] == {"kind": "me"}
    assert (settings["model"]["ffn"], settings["model"]["vocab"]) == (16, 260)
    assert (settings["training"]["lr"], settings["training"]["betas"]) == (1e-3, [0.9, 0.95])


@pytest.mark.slow
def test_data(seqloom: Seqloom) -> None:
    answer = seqloom("data", "stories:20", "--vocab", 300)
    assert answer.code == 0
    assert "stories:20: training 19 documents" in answer.out
    assert "vocabulary 300" in answer.out


@pytest.mark.parametrize("name", NAMES)
def test_help(seqloom: Seqloom, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    answer = seqloom(name, "--help")
    assert (answer.code, answer.err) == (0, "")
    assert f"seqloom {name}" in answer.out
    assert name in seqloom("--help").out


def test_the_help_groups_the_commands(seqloom: Seqloom) -> None:
    lines = [line.strip("│ ") for line in seqloom("--help").out.splitlines()]
    heads = [line.split()[1] for line in lines if line.startswith("╭")]
    assert heads == ["Options", "Models", "Comparisons", "Information", "More"]
    names = [line.split()[0] for line in lines if line.split() and line.split()[0] in NAMES]
    assert names[:8] == ["train", "generate", "evaluate", "swap", "knn", "export", "compare", "bench"]


def test_the_help_has_no_color_where_none_is_wanted(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer.rich_utils.FORCE_TERMINAL", True)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert re.search(COLOR, seqloom("--help").out)
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(COLOR, seqloom("--help").out)


def test_the_help_of_train_names_the_allocator_option(seqloom: Seqloom) -> None:
    assert "SEQLOOM_KEEP_MEMORY=0" in seqloom("train", "--help").out


def test_no_command_shows_the_help(seqloom: Seqloom) -> None:
    answer = seqloom()
    assert answer.code == 2
    assert all(name in answer.out + answer.err for name in NAMES)
    assert "seqloom: " not in answer.err


@pytest.mark.parametrize("arguments", [["--debug", "cost", "shee"], ["cost", "shee", "--debug"]], ids=" ".join)
def test_debug_shows_where(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["seqloom", *arguments])
    with pytest.raises(ValueError, match="unknown mixer 'shee'"):
        run()


@pytest.mark.slow
def test_after_two_dashes_debug_is_text(trained: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", ["seqloom", "generate", "--max-tokens=2", str(trained), "--", "--debug"])
    with pytest.raises(SystemExit) as left:
        run()
    assert left.value.code == 0
    assert capsys.readouterr().out.startswith("--debug")


@pytest.mark.slow
def test_the_best_texts_of_a_beam_search(seqloom: Seqloom, trained: Path) -> None:
    one = seqloom("generate", trained, "Once", "--max-tokens", 4, "--beams", 3)
    three = seqloom("generate", trained, "Once", "--max-tokens", 4, "--beams", 3, "--best", 3, "--length-penalty", 0.6)
    assert (one.code, three.code) == (0, 0)
    assert one.out.startswith("Once")
    assert re.findall(r"^\d\. log p -\d+\.\d{3}, score -\d+\.\d{3}$", three.out, re.MULTILINE) == [
        line for line in three.out.splitlines() if "score" in line
    ]
    scores = [float(score) for score in re.findall(r"score (-[\d.]+)$", three.out, re.MULTILINE)]
    assert len(scores) == 3
    assert scores == sorted(scores, reverse=True)
    assert three.out.split("\n", 1)[1].startswith(one.out), "the best of three is the one"
    assert three.err.startswith("at most 4 tokens in each of 3 beams; a beam of all 4 reads ")


def test_the_folder_of_a_study_is_no_run(seqloom: Seqloom, tmp_path: Path) -> None:
    open_run(tmp_path, {"study": "compare", "format": 1, "model": {"kind": "decoder"}})
    answer = seqloom("evaluate", tmp_path, "--data", "stories:3")
    assert answer.code == 2
    assert f"{tmp_path} holds a study, not a run: its runs are in its subfolders, which `seqloom runs" in answer.err
    assert len(answer.err.splitlines()) == 1


@pytest.mark.slow
def test_a_damaged_checkpoint_is_passed_over(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    shutil.copytree(trained, tmp_path / "run")
    assert seqloom("train", "tiny", "--set", f"training.batches={STEP + 1}", "--out", tmp_path / "run").code == 0
    newest = tmp_path / "run" / "checkpoints" / f"step_{STEP + 1:08d}"
    (newest / "model.safetensors").write_bytes(b"")
    read = seqloom("generate", tmp_path / "run", "Once", "--max-tokens", 3)
    assert read.code == 0
    assert "model.safetensors is truncated" in read.err
    again = seqloom("train", "tiny", "--set", f"training.batches={STEP + 1}", "--out", tmp_path / "run")
    assert again.code == 0
    assert f"going on after step {STEP} of {STEP + 1}" in again.err


@pytest.mark.slow
def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["demo", "--scale", "tiny", "--out", str(tmp_path)]) == 0
    output = capsys.readouterr()
    for name in ("attention-heads=4", "he", "gated_delta", "mamba", "gru"):
        assert f"\n{name} " in output.out
    assert "Observed once" in output.out
    assert "After 8,192 tokens the fastest next token is that of" in output.out
    assert re.search(r"logits of reading the whole text, within \d\.\de-0[5-7]", output.out)

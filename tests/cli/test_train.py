"""`train`: runs that end, go on or are taken from another, and its help."""

import shutil
from pathlib import Path

import pytest

from seqloom.data.corpora import read
from seqloom.runs.layout import find_run
from tests.cli.conftest import STEP, TINY, Seqloom


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


def test_the_help_of_train_names_the_allocator_option(seqloom: Seqloom) -> None:
    assert "SEQLOOM_KEEP_MEMORY=0" in seqloom("train", "--help").out


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

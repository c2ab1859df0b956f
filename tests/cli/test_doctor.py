"""`doctor` and `--version`: what runs on this machine, and whether the files of a run are unchanged."""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seqloom as package
from seqloom.ops import backends, native
from tests.cli.conftest import CHECKPOINT, WRECKS, Seqloom
from tests.ops.needing import why_not

FILES = [
    *("config.json", "tokenizer.json", "metrics.jsonl"),
    *(f"{CHECKPOINT}/{name}" for name in ("manifest.json", "meta.json", "model.safetensors", "optimizer.safetensors")),
]
DAMAGED = {
    "truncated": (f"{CHECKPOINT}/model.safetensors", "truncated"),
    "flipped": (f"{CHECKPOINT}/model.safetensors", "altered"),
    "half_manifest": (f"{CHECKPOINT}/manifest.json", "unreadable"),
    "no_weights": (f"{CHECKPOINT}/model.safetensors", "missing"),
    "newer_checkpoint": (f"{CHECKPOINT}/manifest.json", "newer seqloom"),
    "broken_config": ("config.json", "not readable JSON"),
    "binary_config": ("config.json", "not readable JSON"),
    "list_config": ("config.json", "does not hold settings"),
    "other_config": (f"{CHECKPOINT}/meta.json", "other settings"),
    "no_tokenizer": ("tokenizer.json", "no tokenizer.json"),
    "broken_tokenizer": ("tokenizer.json", "damaged"),
    "foreign_tokenizer": ("tokenizer.json", "damaged"),
}
"""the file that a broken run's line names, and what it says of it"""


def test_a_whole_run(seqloom: Seqloom, trained: Path) -> None:
    answer = seqloom("doctor", trained)
    assert (answer.code, answer.err) == (0, "")
    *lines, last = answer.out.splitlines()
    assert all(line.startswith("ok ") for line in lines)
    assert {line.split()[1] for line in lines} >= set(FILES)
    assert last == f"all {len(lines)} files are whole"


@pytest.mark.parametrize("wreck", DAMAGED)
def test_a_damaged_run(wreck: str, seqloom: Seqloom, wrecks: Path) -> None:
    answer = seqloom("doctor", wrecks / wreck)
    name, word = DAMAGED[wreck]
    assert (answer.code, answer.err) == (1, "")
    (line,) = [line for line in answer.out.splitlines() if line.startswith("damaged")]
    assert line.split()[1] == f"{name}:"
    assert word in line
    assert answer.out.splitlines()[-1].startswith("1 of ")
    assert wreck in WRECKS


def change_a_row(rows: Path) -> None:
    rows.write_bytes(rows.read_bytes().replace(b'"step": 2', b'"step": 9'))


def drop_a_row(rows: Path) -> None:
    rows.write_bytes(b"".join(rows.read_bytes().splitlines(keepends=True)[1:]))


@pytest.mark.parametrize(
    ("change", "word"),
    [(change_a_row, "1 damaged (line 2)"), (drop_a_row, "1 missing"), (os.unlink, "No such file")],
    ids=["changed", "dropped", "gone"],
)
def test_damaged_rows(
    change: Callable[[Path], None], word: str, seqloom: Seqloom, trained: Path, tmp_path: Path
) -> None:
    shutil.copytree(trained, tmp_path / "run")
    change(tmp_path / "run" / "metrics.jsonl")
    answer = seqloom("doctor", tmp_path / "run")
    assert answer.code == 1
    (line,) = [line for line in answer.out.splitlines() if line.startswith("damaged")]
    assert line.startswith("damaged  metrics.jsonl: ")
    assert word in line


def test_it_changes_nothing(seqloom: Seqloom, wrecks: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in (wrecks / "truncated").rglob("*")}
    seqloom("doctor", wrecks / "truncated")
    assert {path: path.stat().st_mtime_ns for path in (wrecks / "truncated").rglob("*")} == before


@pytest.mark.slow
def test_what_is_installed_and_runs_here(seqloom: Seqloom) -> None:
    answer = seqloom("doctor")
    assert answer.code == 0
    for word in (torch.__version__, package.__version__, "memory available", os.environ["SEQLOOM_CACHE"]):
        assert word in answer.out
    rows = {tuple(line.split()[:2]): line for line in answer.out.split("\n\n")[-1].splitlines()[2:]}
    assert set(rows) == {(op, name) for op, names in backends.known_backends().items() for name in names}
    for op in backends.known_backends():
        for name, why in backends.unavailable(op).items():
            assert why in rows[op, name]


@pytest.mark.slow
def test_version(seqloom: Seqloom) -> None:
    answer = seqloom("--version")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[0] for line in answer.out.splitlines()] == ["seqloom", "torch", "device", "native"]
    assert torch.__version__ in answer.out


def test_neither_compiles(seqloom: Seqloom, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    native.forget()
    try:
        for command in ("--version", "doctor"):
            answer = seqloom(command)
            assert (answer.code, answer.err) == (0, "")
            assert ("yes (0 of " in answer.out) == (not why_not())
        monkeypatch.setenv("CC", "no-such-cc")
        answer = seqloom("--version")
        if sys.platform == "linux":
            assert "native code  no: no C compiler 'no-such-cc' (the environment's CC)" in answer.out
    finally:
        monkeypatch.undo()
        native.forget()
    assert not list(tmp_path.rglob("*.so"))

"""Which models are found, by which names, and which stay loaded; what the command says where it cannot serve."""

import socket
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import command
from seqloom.play.library import Library, find_models, find_reports
from seqloom.play.live import live_rows
from seqloom.runs.metrics import Metrics
from tests.play.conftest import save_model


def never(name: str) -> bool:
    return False


def test_a_run_a_folder_of_runs_and_a_damaged_one(tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        save_model(tmp_path / "runs" / name, "gru", 1)
    assert list(find_models([tmp_path / "runs"])) == ["runs/a", "runs/b/c"]
    assert list(find_models([tmp_path / "runs" / "a"])) == ["a"]
    assert len(find_models([tmp_path / "runs", tmp_path / "runs" / "b"])) == 3
    (tmp_path / "runs" / "a" / "config.json").write_text("{")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "config.json").write_text("{}")
    assert "runs/b/c" in find_models([tmp_path / "runs"])
    with pytest.raises(FileNotFoundError, match="holds no run"):
        find_models([tmp_path / "other"])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        find_models([tmp_path / "none"])
    assert find_reports([tmp_path]) == []


def test_what_is_loaded_fits_into_the_memory(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        save_model(tmp_path / name, "gru", 1)
    folders = find_models([tmp_path])
    names = list(folders)
    size = sum(p.numel() * p.element_size() for p in Library(folders, 10**9).get(names[0], never).parameters())
    library = Library(folders, 2 * size + size // 2)
    first = library.get(names[0], never)
    library.get(names[1], never)
    assert library.get(names[0], never) is first
    library.get(names[2], never)
    assert [library.has(name) for name in names] == [True, False, True], "that asked for longest ago goes"
    with pytest.raises(ValueError, match="which --memory does not leave"):
        library.get(names[1], lambda name: True)
    with pytest.raises(ValueError, match="which --memory does not leave"):
        Library(folders, size // 2).get(names[0], never)


def test_curves_of_runs(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    save_model(folder, "gru", 1)
    with Metrics(folder / "metrics.jsonl") as metrics:
        for step in range(1, 1001):
            scores = {"held_out": 2.0} if step == 900 else {}
            metrics.append({"step": step, "loss": 1.0 / step, "seconds": 0.5, **scores})
    bad = tmp_path / "runs" / "b"
    save_model(bad, "gru", 1)
    (bad / "metrics.jsonl").write_text("no rows\n" * 5)
    rows = {row["name"]: row for row in live_rows(find_models([tmp_path / "runs"]))}
    good = rows["runs/a"]
    assert len(good["loss"]) <= 300
    assert good["loss"][-1] == (1000, 1 / 1000)
    assert good["held_out"] == [(900, 2.0)]
    assert good["steps_a_second"] == pytest.approx(2.0)
    assert "runs/b" in rows


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("none",), "none does not exist"),
        (("empty",), "holds no run"),
        (("runs", "--port", "70000"), "--port"),
        (("runs", "--memory", "0"), "memory"),
    ],
)
def test_what_the_command_refuses(
    arguments: tuple[str, ...], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    save_model(tmp_path / "runs" / "a", "gru", 1)
    assert command(["play", *arguments, "--no-browser"]) == 2
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tmp_path / "a", "gru", 1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert command(["play", str(tmp_path / "a"), "--port", str(port), "--no-browser"]) == 2
    line = capsys.readouterr().err
    assert f"port {port} cannot be used" in line
    assert line.count("\n") == 1

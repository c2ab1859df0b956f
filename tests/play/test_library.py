"""Which models are found, by which names, and which stay loaded; what the command says where it cannot serve."""

import socket
import sys
import webbrowser
from pathlib import Path
from typing import Any

import pytest

import seqloom
from seqloom.cli import command
from seqloom.evaluation.surprise import surprise
from seqloom.play.library import Library, carried_models, find_models, find_reports, require_folders
from seqloom.play.live import live_rows
from seqloom.play.serve import open_page
from seqloom.runs.metrics import Metrics
from seqloom_studies.board.carried import SENTENCE
from tests.play.conftest import save_model

KINDS = ["attention", "gated_delta", "he", "rwkv7"]


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
        require_folders([tmp_path / "other"])
    with pytest.raises(FileNotFoundError, match="does not exist"):
        require_folders([tmp_path / "none"])
    assert find_reports([tmp_path]) == []


@pytest.mark.parametrize("kind", KINDS)
def test_the_models_that_come_with_it(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    folders = find_models(carried_models())
    assert list(folders) == KINDS
    files = [path for path in folders[kind].rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < 4.5e6
    model = seqloom.load(folders[kind])
    assert capsys.readouterr().err == "", "its mixer computes what it was trained with"
    assert [mixer.kind for mixer in model.config.mixers] == [kind] * model.config.depth
    assert model.config.context == 2048
    assert surprise(model, SENTENCE).bits_per_byte < 1.5
    card = (folders[kind] / "README.md").read_text()
    assert f"# {kind}: " in card


def test_what_is_loaded_fits_into_the_memory(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        save_model(tmp_path / name, "gru", 1)
    names = list(find_models([tmp_path]))
    size = sum(p.numel() * p.element_size() for p in Library([tmp_path], 10**9).get(names[0], never).parameters())
    library = Library([tmp_path], 2 * size + size // 2)
    first = library.get(names[0], never)
    library.get(names[1], never)
    assert library.get(names[0], never) is first
    library.get(names[2], never)
    assert [library.has(name) for name in names] == [True, False, True], "that asked for longest ago goes"
    with pytest.raises(ValueError, match="which --memory does not leave"):
        library.get(names[1], lambda name: True)
    with pytest.raises(ValueError, match="which --memory does not leave"):
        Library([tmp_path], size // 2).get(names[0], never)


def test_a_run_that_begins_later_is_found(tmp_path: Path) -> None:
    save_model(tmp_path / "b", "gru", 1)
    library = Library([tmp_path], 10**9)
    before = library.names
    save_model(tmp_path / "a", "gru", 1)
    library.find()
    assert library.names == [f"{tmp_path.name}/a", *before]
    (tmp_path / "report.html").write_text("")
    library.find()
    assert library.reports == [tmp_path / "report.html"]


def test_curves_of_runs(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "a"
    save_model(folder, "gru", 1)
    with Metrics(folder / "metrics.jsonl") as metrics:
        for step in range(1, 1001):
            scores = {"held_out": 2.0} if step == 900 else {}
            metrics.append({"step": step, "loss": 1.0 / step, "seconds": 0.5, "tokens_per_second": 7.0, **scores})
    bad = tmp_path / "runs" / "b"
    save_model(bad, "gru", 1)
    (bad / "metrics.jsonl").write_text("no rows\n" * 5)
    rows = {row["name"]: row for row in live_rows(find_models([tmp_path / "runs"]))}
    good = rows["runs/a"]
    assert len(good["loss"]) <= 300
    assert good["loss"][-1] == (1000, 1 / 1000)
    assert good["held_out"] == [(900, 2.0)]
    assert good["steps_a_second"] == pytest.approx(2.0)
    assert good["tokens_a_second"] == 7.0
    assert "runs/b" in rows
    with Metrics(folder / "metrics.jsonl") as metrics:
        metrics.append({"step": 1001, "loss": 0.5, "seconds": 0.5})
    again = {row["name"]: row for row in live_rows(find_models([tmp_path / "runs"]))}
    assert again["runs/a"]["step"] == 1001


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


@pytest.mark.parametrize("name", ["play", "watch"])
def test_a_port_that_is_taken(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_model(tmp_path / "a", "gru", 1)
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        assert command([name, str(tmp_path / "a"), "--port", str(port), "--no-browser"]) == 2
    line = capsys.readouterr().err
    assert f"port {port} cannot be used" in line
    assert line.count("\n") == 1


def test_no_browser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def fail(address: str) -> bool:
        raise webbrowser.Error("no such program")

    for found in (lambda address: False, fail):
        monkeypatch.setattr(webbrowser, "open", found)
        open_page("http://127.0.0.1:1")
        assert capsys.readouterr().err == "no browser was found: open http://127.0.0.1:1 in one\n"
    monkeypatch.setattr(webbrowser, "open", lambda address: True)
    open_page("http://127.0.0.1:1")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_the_extra_is_named(missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    for name in ("play", "watch"):
        assert command([name]) == 2
        assert capsys.readouterr().err == f"seqloom: {missing} is missing: pip install 'seqloom[play]'\n"

"""The origin of a row: date, commit, the command without paths of this machine, and the machine."""

import re
import subprocess
from datetime import date
from pathlib import Path

import pytest
import torch

from seqloom.analysis import origin as module
from seqloom.analysis.origin import commit, machine, origin, public, tag

GIT = ("git", "-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")


@pytest.fixture(autouse=True)
def _asked_anew() -> None:
    commit.cache_clear()
    tag.cache_clear()


@pytest.mark.slow
def test_all_four_are_there() -> None:
    result = origin("seqloom bench she")
    assert [name for name in result if name != "tag"] == ["date", "commit", "command", "machine"]
    assert (result["date"], result["command"]) == (date.today().isoformat(), "seqloom bench she")
    assert f"torch {torch.__version__}, {torch.get_num_threads()} threads" in result["machine"] == machine()


def test_a_commit_with_a_tag_names_it_unless_the_tree_has_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_git", lambda *words: "comparison-7" if words[0] == "describe" else None)
    monkeypatch.setattr(module, "commit", lambda: "abc1234")
    assert origin("seqloom")["tag"] == "comparison-7"
    tag.cache_clear()
    monkeypatch.setattr(module, "commit", lambda: "abc1234+")
    assert "tag" not in origin("seqloom")


@pytest.mark.parametrize(
    ("cores", "message"),
    [(["A 1"], "1-core A 1 "), (["A 1", "B 2", "B 2"], "3-core A 1 ")],
    ids=["one", "of two kinds"],
)
def test_the_machine_by_its_first_core(
    cores: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = tmp_path / "cpuinfo"
    result.write_text("\n".join(f"processor\t: {n}\nmodel name\t: {name}\n" for n, name in enumerate(cores)))
    monkeypatch.setattr(module, "Path", lambda path: result if path == "/proc/cpuinfo" else Path(path))
    assert machine().startswith(message)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("seqloom bench she attention:heads=32 --dim 128", "seqloom bench she attention:heads=32 --dim 128"),
        ("seqloom bench she --out /home/me/rows.jsonl", "seqloom bench she --out rows.jsonl"),
        ("seqloom compare --data=/srv/books/ --out runs/she", "seqloom compare --data=books --out runs/she"),
        ("x --set data.source=/srv/a.txt", "x --set data.source=a.txt"),
        ("x '/home/my own/rows.jsonl'", "x rows.jsonl"),
        ("x ../../me/rows.jsonl ~/rows.jsonl", "x rows.jsonl rows.jsonl"),
        (r"x 'C:\Users\me\rows.jsonl'", "x rows.jsonl"),
        ("x 'a prompt", "x ''\"'\"'a' prompt"),
        ("/usr/bin/seqloom cost she", "seqloom cost she"),
    ],
)
def test_no_path_of_this_machine(given: str, kept: str) -> None:
    assert public(given) == kept


def checkout(folder: Path, ignored: str = "") -> Path:
    """A repository whose package is tracked, or lies in an ignored folder of another project."""
    package = folder / ignored / "seqloom"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (folder / "benchmarks").mkdir()
    (folder / "benchmarks" / "tokens.py").touch()
    (folder / ".gitignore").write_text("*.pyc\n__pycache__/\n" + (f"{ignored}\n" if ignored else ""))
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "first")):
        subprocess.run([*GIT, *words], cwd=folder, check=True, capture_output=True)
    return package


def test_the_commit_and_whether_the_tree_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = checkout(tmp_path)
    monkeypatch.setattr(module, "PACKAGE", package)
    clean = commit()
    assert re.fullmatch("[0-9a-f]{7,}", clean)
    (tmp_path / "README.md").write_text("elsewhere")
    (package / "old.pyc").touch()
    (tmp_path / "benchmarks" / "__pycache__").mkdir()
    (tmp_path / "benchmarks" / "__pycache__" / "tokens.cpython-311.pyc").touch()
    commit.cache_clear()
    assert commit() == clean
    (package / "new.py").touch()
    assert commit() == clean, "what the process began with"
    commit.cache_clear()
    assert commit() == clean + "+"
    (package / "new.py").unlink()
    (tmp_path / "src" / "seqloom_studies").mkdir(parents=True)
    (tmp_path / "src" / "seqloom_studies" / "study.py").touch()
    commit.cache_clear()
    assert commit() == clean + "+"


def test_installed_inside_of_another_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PACKAGE", checkout(tmp_path, ".venv"))
    assert re.fullmatch(r"seqloom [0-9.]+", commit())


def test_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert re.fullmatch(r"seqloom [0-9.]+", commit())


def test_the_commit_of_a_copied_package_is_the_one_that_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_named", [])
    before = commit()
    module.name_commit("abc1234", "comparison-7")
    assert (commit(), tag()) == ("abc1234", "comparison-7")
    module.name_commit("def5678", None)
    assert "tag" not in origin("seqloom")
    assert origin("seqloom")["commit"] == "def5678" != before

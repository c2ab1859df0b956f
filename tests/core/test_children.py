"""Processes of our own import Python's modules, not files of the same name in the current folder."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom.core import children
from seqloom.core.children import import_path, module_words, safe_path
from tests.special_files import hostile_modules

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_child_runs_no_module_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    child = [sys.executable, *module_words("json.tool", "--help")]
    done = subprocess.run(child, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout
    assert not (tmp_path / "ran").exists()
    unsafe = [sys.executable, "-m", "json.tool", "--help"]
    subprocess.run(unsafe, capture_output=True, timeout=60, check=False)
    assert (tmp_path / "ran").exists(), "the folder would run code"


@pytest.mark.slow
def test_a_module_of_the_users_own_is_found_and_gets_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine.py").write_text("import sys, seqloom; print(__name__, sys.argv[1:], seqloom.__file__)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    child = [sys.executable, *module_words("mine", "-c", "a b")]
    said = subprocess.run(child, capture_output=True, text=True, timeout=60, check=True).stdout
    assert said.split("]")[0] == "__main__ ['-c', 'a b'"
    assert str(children.PACKAGES) in said, "the package of this process"


def test_the_current_folder_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/python", "src", str(tmp_path), "."])
    assert import_path() == ["/usr/lib/python", str(tmp_path / "src"), str(tmp_path)]
    monkeypatch.setattr(sys, "path", ["/usr/lib/python"])
    assert import_path() == ["/usr/lib/python"]
    monkeypatch.setattr(children, "PACKAGES", tmp_path)
    monkeypatch.setattr(sys, "path", ["", "/usr/lib/python"])
    assert import_path() == [str(tmp_path), "/usr/lib/python"], "it holds the package itself"


@pytest.mark.parametrize("before", [None, "", "1"])
def test_the_environment_is_as_before(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.delenv(children.SAFE, raising=False)
    if before is not None:
        monkeypatch.setenv(children.SAFE, before)
    with safe_path():
        assert os.environ[children.SAFE] == "1"
    assert os.environ.get(children.SAFE) == before


def unsafe(tree: ast.AST) -> list[int]:
    """The lines that start Python by a module, or by code, without -P: after `sys.executable` comes -P or a file."""
    lines = []
    for node in ast.walk(tree):
        match node:
            case ast.List(elts=[first, second, *_]) if ast.unparse(first) == "sys.executable":
                safe = ast.unparse(second)
                if safe != "'-P'" and "__file__" not in safe and not safe.startswith("*module_words("):
                    lines.append(node.lineno)
            case ast.Call(func=ast.Call(func=ast.Name(id="elastic_launch")), args=[second, *_]):
                if not ast.unparse(second).startswith("*module_words("):
                    lines.append(node.lineno)
    return lines


@pytest.mark.slow
def test_every_child_is_started_so() -> None:
    starting = []
    for folder in ("src", "benchmarks"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "sys.executable" in text:
                starting.append(path.name)
                assert unsafe(ast.parse(text)) == [], path
    assert {"processes.py", "train.py", "harness.py"} <= set(starting)
    assert unsafe(ast.parse("run([sys.executable, '-m', 'x']); elastic_launch(c, sys.executable)('-m', 'x')")) == [1, 1]

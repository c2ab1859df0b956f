"""docs/from.md: its commands and lines of Python run, those of other libraries where they are installed."""

import ast
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

import seqloom
from seqloom.cli import command
from seqloom.data.stories import corpus
from seqloom.studies.candidates import parse_candidate

TEXT = (Path(__file__).parents[2] / "docs/from.md").read_text(encoding="utf-8")
SNIPPETS = re.findall(r"```python\n(.*?)```", TEXT, flags=re.S)
COMMANDS = [line for block in re.findall(r"```sh\n(.*?)```", TEXT, flags=re.S) for line in block.splitlines()]
OTHERS = ("fla", "zoology", "x_transformers")
TINY = ("data.vocab=300", "training.batches=4", "model.dim=32", "model.context=16", "model.ffn=32", "model.depth=1")


def imported_packages(snippet: str) -> set[str]:
    nodes = ast.walk(ast.parse(snippet))
    return {node.module.partition(".")[0] for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def snippet_of(package: str) -> str:
    (snippet,) = [snippet for snippet in SNIPPETS if package in imported_packages(snippet)]
    return snippet


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with books, as the page has it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "books").mkdir()
    for number, text in enumerate(corpus(30, 1)):
        (tmp_path / "books" / f"{number}.txt").write_text(text)
    return tmp_path


@pytest.mark.parametrize("package", OTHERS)
def test_each_library_has_one_snippet_with_both_sides_and_three_seeds(package: str) -> None:
    snippet = snippet_of(package)
    assert "range(3)" in snippet
    assert "for name, " in snippet


@pytest.mark.slow
@pytest.mark.parametrize("package", OTHERS)
def test_the_lines_of_other_libraries_run(package: str) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    names: dict[str, object] = {}
    exec(compile(snippet_of(package), "from.md", "exec"), names)
    if package == "zoology":
        assert len(names["configs"]) == 6
    if package == "fla":
        models = names["AutoModelForCausalLM"]
        attention, delta = (models.from_config(config).num_parameters() for config in names["configs"].values())
        assert abs(attention / delta - 1) < 0.005


@pytest.mark.slow
def test_our_lines_run(books: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (snippet,) = [snippet for snippet in SNIPPETS if "import seqloom" in snippet]
    compare = seqloom.compare
    tiny = {
        "preset": "tiny",
        "settings": {name: int(value) for name, _, value in (line.partition("=") for line in TINY)},
    }
    monkeypatch.setattr(seqloom, "compare", lambda *mixers, **options: compare(*mixers, **options, **tiny))
    exec(compile(snippet, "from.md", "exec"), {})
    assert "held-out loss" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("line", [line for line in COMMANDS if "fla.layers" not in line])
def test_the_commands(line: str, books: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(line)[1:]
    if words[0] == "compare":
        words += ["--plan", *(word for change in TINY for word in ("--set", change))]
    if words[0] == "study":
        words += ["--plan", "--dim", "8", "--batch", "2"]
    assert command(words) == 0
    printed = capsys.readouterr().out
    if words[0] == "list":
        assert " is here as " in printed
    elif "--match" in words:
        assert "attention-heads=2.params-of-gated_delta-heads=2" in printed


def test_a_layer_of_fla_stands_where_a_mixer_is_named() -> None:
    (line,) = [line for line in COMMANDS if "fla.layers" in line]
    *_, layer = (word for word in shlex.split(line) if word.startswith("fla.layers"))
    assert parse_candidate(layer).kind == "fla.layers:GatedDeltaNet"

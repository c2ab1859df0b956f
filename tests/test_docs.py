"""The generated pages are up to date, and the site is built from them without the network."""

import itertools
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from docs import pages
from docs.making import api, layers, log
from docs.making.families import families, title
from docs.making.hooks import PAGES, moved
from seqloom.cli import registry
from seqloom.mixers import kinds

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_every_mixer_has_its_page() -> None:
    made = pages.pages()
    assert set(made) == {"README.md", *(f"{kind}.md" for kind in kinds())}
    result = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs/mixers").glob("*.md")}
    assert result.keys() == made.keys(), "make pages"
    for name, text in made.items():
        assert result[name] == text, f"{name} is not of today: make pages"


def test_every_mixer_is_in_one_family() -> None:
    listed = [kind for members in families().values() for kind in members]
    assert sorted(listed) == sorted(registry.read()["mixers"])
    assert families()["The Extractors"][:4] == ["she", "he", "we", "me"]
    assert title("aft") == "Attention-free Transformers"


@pytest.mark.parametrize(
    ("path", "written", "expected"),
    [
        ("README.md", "[a](docs/log.md#x)", "[a](log.md#x)"),
        ("README.md", "[rows](results/a.jsonl), [b](CONTRIBUTING.md)", "[rows](results/a.jsonl), [b](contributing.md)"),
        ("docs/log.md", "[a](../README.md) [b](../results/a.jsonl)", "[a](index.md) [b](results/a.jsonl)"),
        ("docs/mixers/she.md", "[`a`](../log.md)", "[`a`](../log.md)"),
        ("benchmarks/README.md", "[a](../docs/mixers/she.md)", "[a](mixers/she.md)"),
        ("README.md", "[a](https://a.b/c) [d](#e)", "[a](https://a.b/c) [d](#e)"),
        ("README.md", "see [the code](seqloom/face.py).", "see the code."),
        ("README.md", "[![a](docs/i.png)](docs/i.png)", "[![a](i.png)](i.png)"),
        ("README.md", "```\n[a](docs/log.md)\n```\n[a](docs/log.md)", "```\n[a](docs/log.md)\n```\n[a](log.md)"),
    ],
)
def test_links(path: str, written: str, expected: str) -> None:
    known = {"index.md", "log.md", "contributing.md", "results/a.jsonl", "mixers/she.md", "i.png"}
    assert moved(written, path, known) == expected


def test_the_walk_of_a_batch_names_files_and_enters_no_folder_twice() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    walk = text.split("## One batch, from text to figure")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)/` \| (.*?) \|", walk, flags=re.M)
    folders = [folder for folder, _ in rows]
    assert folders[0] == "data"
    assert folders[-1] == "report"
    assert len(folders) == len(set(folders))
    for folder, names in rows:
        files = re.findall(r"`([\w/]+)`", names)
        assert files
        for name in files:
            path = ROOT / "src/seqloom" / folder / name
            assert path.with_suffix(".py").is_file() or path.is_dir(), path


def test_the_reference_names_modules_that_are_there() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in api.FOLDER.glob("*.md")}
    assert written == api.pages(), "make pages"
    for part in api.PARTS.values():
        for module in part.modules:
            assert find_spec(module) is not None, module
    described = [module for part in api.PARTS.values() for module in part.modules]
    assert len(described) == len(set(described))


def test_the_layers_are_drawn_from_the_import_contract() -> None:
    rows = layers.layers((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert layers.PICTURE.read_text(encoding="utf-8") == layers.picture(rows), "make pages"
    table = (ROOT / "docs/architecture.md").read_text(encoding="utf-8").split("\n## ")[1]
    for module in itertools.chain(*rows):
        name = module.removeprefix("seqloom.")
        assert f"`{name}/`" in table or f"`{name}.py`" in table or f"`src/{name}/`" in table, name


def test_the_index_of_the_log_is_of_today() -> None:
    assert log.INDEX.read_text(encoding="utf-8") == log.page(), "make pages"
    found = log.entries()
    links = [entry.line for entry in found]
    assert len(links) == len(set(links)) > 90
    assert {entry.decision for entry in found} == set(log.DECISIONS)


def test_an_entry_of_the_log_says_what_was_decided(tmp_path: Path) -> None:
    file = tmp_path / "2026-11/05.md"
    file.parent.mkdir()
    file.write_text("# 2026-11-05\n\n## A `scan`, in C\n\n*kept · scans, token*\n\nIt is faster.\n", encoding="utf-8")
    (entry,) = log.entries(tmp_path)
    assert entry == ("2026-11-05", "A `scan`, in C", "kept", ("scans", "token"))
    assert log.index([entry], "# Log\n").count("- 2026-11-05 · [A `scan`, in C](log/2026-11/05.md#a-scan-in-c)") == 3
    for line, says in (("", "below each heading"), ("*lost · scans*\n\n", "the decision is one of kept, negative")):
        file.write_text(f"## A\n\n{line}It is.\n", encoding="utf-8")
        with pytest.raises(ValueError, match=says):
            log.entries(tmp_path)


def test_every_page_is_in_the_navigation_once() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:")[1].split("\ntheme:")[0]
    listed = re.findall(r"([\w/]+\.md)$", navigation, flags=re.M)
    written = {path.name for path in (ROOT / "docs").glob("*.md")} | {f"api/{name}" for name in api.pages()}
    assert sorted(listed) == sorted({*written, *PAGES.values(), "mixers/README.md"})
    assert all((ROOT / path).is_file() for path in PAGES)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("mkdocstrings") is None, reason="mkdocs and mkdocstrings are not installed: make docs")
def test_the_site_asks_nothing_of_the_network(tmp_path: Path) -> None:
    process = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    for path in (tmp_path / "site").rglob("*.html"):
        text = path.read_text(encoding="utf-8")
        for mark in ('<script src="http', '<img src="http', '<link rel="stylesheet" href="http', "fonts.g"):
            assert mark not in text, f"{path.name}: {mark}"
    assert {f"{kind}.html" for kind in kinds()} <= {path.name for path in (tmp_path / "site/mixers").iterdir()}
    shutil.rmtree(tmp_path / "site")

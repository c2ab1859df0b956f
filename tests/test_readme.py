"""README is written from rows and its code runs; so do the quickstart's commands, and the contract's mixer keeps it."""

import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from docs.making import readme
from docs.making.results import RESULTS
from seqloom.cli import command
from seqloom.core import mixer_config as registry
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.data.stories import corpus
from seqloom.report.charts.draw import digest
from seqloom_studies.board import short
from tests.contract.test_broken import CHECKS

ROOT = Path(__file__).parents[1]
README, QUICKSTART, CONTRACT = (
    (ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/quickstart.md", "docs/contract.md")
)
LINES = 110
"""the most lines of README"""
TINY = ["data.vocab=300", "training.batches=4", "model.dim=32", "model.context=16", "model.ffn=32"]
SMALLER = {
    "paper": ["--scale", "tiny", "--only", "he"],
    "compare": ["--seeds", "1"],
    "recall": ["--dim", "8", "--batches", "2"],
}
"""what a command of README gets so that the test is quick; the last of an option counts"""


def blocks(language: str, text: str = README) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, flags=re.S)


def test_readme_is_of_today() -> None:
    assert readme.page() == README, "make pages"
    assert len(README.splitlines()) <= LINES


def test_the_chart_is_of_the_rows() -> None:
    six = short.newest(RESULTS)
    assert six is not None
    assert digest(short.chart(six)) in readme.CHART.read_text(encoding="utf-8"), "make pages"


def test_every_number_of_readme_is_of_a_row() -> None:
    values = readme.values()
    assert values is not None
    of_rows = readme.measured_numbers(" ".join(values.values()))
    assert readme.measured_numbers(README) - of_rows - readme.FIXED == set()
    assert len(of_rows) > 30


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("1.845 ± 0.010 (5), 2,048 tokens, 99%", {"1.845", "0.010", "5", "2,048", "99"}),
        ("one\n```sh\nseqloom --seeds 3\n```\n[12 rows](results/13.jsonl) `dim=14` rwkv7 H100", {"12"}),
    ],
)
def test_numbers_are_those_of_the_prose(text: str, numbers: set[str]) -> None:
    assert readme.measured_numbers(text) == numbers


def test_a_memory_or_time_names_its_sizes() -> None:
    for words in ("context 512", "float32", "batch 8 of 512 tokens", "threads", "dim 128, depth 4"):
        assert words in README
    assert re.search(r"On an H100 at dim \d+, depth \d+, context [\d,]+, batch \d+, bf16", README)


def test_every_link_of_readme_leads_somewhere() -> None:
    for target in re.findall(r"\]\(([^()\s]+)\)", README):
        if not target.startswith("http"):
            assert (ROOT / target.partition("#")[0]).exists(), target


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with books, as README's reader has one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "books").mkdir()
    for number, text in enumerate(corpus(30, 1)):
        (tmp_path / "books" / f"{number}.txt").write_text(text)
    (tmp_path / "another-book.txt").write_text(next(corpus(1, 2)))
    return tmp_path


@pytest.mark.slow
def test_the_commands(here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.studies.samples.STORIES", 1)
    monkeypatch.setattr("seqloom.studies.samples.LENGTH", 20)
    monkeypatch.setattr("seqloom.studies.race.ROUNDS", 2)
    monkeypatch.setattr("seqloom.studies.pictures.TOKENS", 20)
    own = next(block for block in blocks("sh", QUICKSTART) if "llama/small" in block)
    lines = [line for line in own.splitlines() if line.startswith("seqloom ")]
    lines += [line for block in blocks("sh") for line in block.splitlines() if line.startswith("seqloom ")]
    assert [line.split()[1] for line in lines] == [
        *("train", "generate", "compare", "bench", "cost", "compare"),
    ]
    for line in lines:
        words = shlex.split(line)[1:]
        if words[0] == "bench":
            words += ["--dim", "32", "--context", "16", "--batch", "2", "--repeats", "1"]
        words += SMALLER.get(words[0], [])
        smaller = [word for change in TINY for word in ("--set", change)] if words[0] in ("train", "compare") else []
        assert command([*words, *smaller]) == 0, line
        assert capsys.readouterr().out.strip(), f"{line} printed nothing"


def test_make_has_the_two_commands() -> None:
    makefile = (Path(__file__).parent.parent / "Makefile").read_text()
    for line in (line for block in blocks("sh") for line in block.splitlines() if line.startswith("make ")):
        assert re.search(rf"^{line.split()[1]}:", makefile, flags=re.M), line


def test_the_settings_that_the_text_names(here: Path) -> None:
    from seqloom.training.settings import resolve

    settings = re.findall(r"--set (\w[\w.]*=[a-z]\w*)", QUICKSTART)
    assert settings
    for change in settings:
        resolve("tiny", [change, "model.depth=2"])


@pytest.mark.parametrize(("text", "shape"), [(README, (1, 32, 128)), (QUICKSTART, (1, 128))])
def test_the_python_face(here: Path, text: str, shape: tuple[int, ...]) -> None:
    face = next(block for block in blocks("python", text) if "import seqloom" in block)
    names: dict[str, object] = {}
    exec(compile(face, "page.md", "exec"), names)
    assert isinstance(names["y"], torch.Tensor)
    assert names["y"].shape == shape


ADDED = next(block for block in blocks("python", CONTRACT) if "@register" in block)
KIND = re.search(r'kind: Literal\["(\w+)"\]', ADDED)[1]


@contextmanager
def added(text: str, folder: Path) -> Iterator[type[MixerConfig]]:
    """The one mixer that a file with this text registers, as long as the block lasts."""
    before = registry.kinds()
    (folder / "added_mixer.py").write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        importlib.invalidate_caches()
        try:
            importlib.import_module("added_mixer")
            (name,) = registry.kinds().keys() - before.keys()
            yield registry.kinds()[name]
        finally:
            for name in registry.kinds().keys() - before.keys():
                registry.unregister(name)
            sys.modules.pop("added_mixer", None)


@pytest.mark.parametrize("check", [name for name in CHECKS if "compile" not in name and "export" not in name])
def test_the_added_mixer_keeps_the_contract(check: str, tmp_path: Path) -> None:
    with added(ADDED, tmp_path) as config:

        def make(context: int | None = 5, dtype: torch.dtype = torch.float64) -> Mixer:
            return config().build(8, context).to(dtype)

        CHECKS[check](make)


@pytest.mark.parametrize("kind", [KIND, "my_own"])
def test_the_added_mixer_is_priced_and_listed(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under README's name, and under the name that a reader gives it."""
    with added(ADDED.replace(KIND, kind), tmp_path) as config:
        assert command(["list"]) == 0
        assert str(config.__doc__).splitlines()[0].removesuffix(".") in capsys.readouterr().out
        assert command(["cost", kind, "--dim", "8"]) == 0
        assert kind in capsys.readouterr().out

"""README's commands and Python run, and the mixer that it adds keeps the contract."""

import importlib
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch

from seqloom.cli import command
from seqloom.core import mixer_config as registry
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import MixerConfig
from seqloom.data.stories import corpus
from tests.contract.test_broken import CHECKS

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
TINY = ["data.vocab=300", "training.batches=4", "model.dim=32", "model.context=16", "model.ffn=32"]
SMALLER = {
    "paper": ["--scale", "tiny", "--only", "he"],
    "compare": ["--seeds", "1"],
    "recall": ["--dim", "8", "--batches", "2"],
}
"""what a command of README gets so that the test is quick; the last of an option counts"""


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


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
    lines = [line for block in blocks("sh") for line in block.splitlines() if line.startswith("seqloom ")]
    assert [line.split()[1] for line in lines] == [
        *("train", "generate", "compare", "bench", "cost"),
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

    settings = re.findall(r"--set (\S+=\S+)", README)
    assert settings
    for change in settings:
        resolve("tiny", [change, "model.depth=2"])


def test_the_python_face(here: Path) -> None:
    face = next(block for block in blocks("python") if "import seqloom" in block)
    names: dict[str, object] = {}
    exec(compile(face, "README.md", "exec"), names)
    assert isinstance(names["y"], torch.Tensor)
    assert names["y"].shape == (1, 128)


ADDED = next(block for block in blocks("python") if "@register" in block)
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

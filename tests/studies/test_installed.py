"""Studies as entry points: a stranger's, one that is broken, one that takes a name, and ours without metadata."""

import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import seqloom_studies
from seqloom.cli import command
from seqloom.studies.installed import GROUP, installed_studies, page_writer, study_command

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "my_study"
Install = Callable[[str, dict[str, str]], None]


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Gives a package metadata with these studies, as pip would; whatever it imports is forgotten afterwards."""
    site = tmp_path / "site"
    monkeypatch.syspath_prepend(site)
    before = set(sys.modules)

    def install_package(package: str, studies: dict[str, str]) -> None:
        info = site / f"{package}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        lines = "\n".join(f"{name} = {value}" for name, value in studies.items())
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{lines}\n")
        installed_studies.cache_clear()

    yield install_package
    installed_studies.cache_clear()
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("my_study", "broken_study"):
            del sys.modules[name]


@pytest.fixture
def my_study(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package of examples/my_study."""
    monkeypatch.syspath_prepend(EXAMPLE)
    project = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())
    install("my_study", project["project"]["entry-points"][GROUP])


@pytest.mark.slow
@pytest.mark.usefixtures("my_study")
def test_a_study_of_another_package(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["study"]) in (0, 2)
    assert "width" in capsys.readouterr().out
    out = tmp_path / "width"
    words = ["study", "width", "he", "--width", "8", "--width", "16", "--data", "stories:30", "--out", str(out)]
    words += ["--set", "training.batches=3", "--set", "model.depth=1"]
    assert command([*words, "--plan"]) == 0
    assert "he/width-16" in capsys.readouterr().out or not out.exists()
    assert command(words) == 0
    printed = capsys.readouterr().out
    assert [line.split()[:2] for line in printed.splitlines() if line.startswith("he ")] == [["he", "8"], ["he", "16"]]
    assert f"the report is {out / 'width.html'}" in printed
    written = (out / "width.html").read_bytes()
    (out / "width.html").unlink()
    assert command(["report", str(out)]) == 0
    assert (out / "width.html").read_bytes() == written


def test_a_broken_study_is_named_and_the_others_are_listed(
    install: Install, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install("broken_study", {"raises": "broken_study:command", "absent": "broken_study_that_is_not:command"})
    (tmp_path / "site" / "broken_study.py").write_text("raise TypeError('no GPU\\n here')\n")
    command(["study"])
    printed, errors = capsys.readouterr()
    raises, absent = sorted(errors.splitlines()[:2], reverse=True)
    assert raises == (
        "seqloom: the study 'raises' of broken_study (broken_study:command) cannot be used: TypeError: no GPU here"
    )
    assert "the study 'absent' of broken_study (broken_study_that_is_not:command) cannot be used" in absent
    assert "markov-gap" in printed
    assert "raises" not in printed
    assert command(["study", "raises"]) == 2
    assert capsys.readouterr().err.splitlines() == [raises]


def test_a_name_that_is_taken(install: Install, capsys: pytest.CaptureFixture[str]) -> None:
    install("broken_study", {"markov-gap": "broken_study:command", "number": "math:pi"})
    assert installed_studies()["markov-gap"].value == seqloom_studies.COMMANDS["markov-gap"]
    expected = "seqloom: the study 'markov-gap' of broken_study (broken_study:command) is left out: "
    assert capsys.readouterr().err == f"{expected}{seqloom_studies.COMMANDS['markov-gap']} has that name\n"
    with pytest.raises(
        ValueError, match=r"'number' of broken_study \(math:pi\) cannot be used: TypeError: math:pi is no"
    ):
        study_command("number")


def test_a_misspelt_study(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["study", "markov-gpa"]) == 2
    error = "seqloom: there is no study 'markov-gpa': `seqloom study` lists them; did you mean 'markov-gap'?\n"
    assert capsys.readouterr().err == error


def test_a_page_that_there_is_none_of() -> None:
    assert page_writer("nothing") is None


def test_ours_are_those_of_pyproject() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][GROUP] == seqloom_studies.COMMANDS


@pytest.mark.slow
def test_the_list_needs_no_metadata_and_no_torch(tmp_path: Path) -> None:
    for package in ("seqloom", "seqloom_studies"):
        (tmp_path / package).symlink_to(ROOT / "src" / package)
    program = (
        "import importlib.metadata as metadata, sys\n"
        "metadata.entry_points = lambda **chosen: metadata.EntryPoints(())\n"
        "from seqloom.cli import command\n"
        "command(['study'])\n"
        "sys.exit('torch' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert all(f" {name} " in done.stdout for name in seqloom_studies.COMMANDS)


def test_each_study_is_one_folder() -> None:
    folders = {value.split(".")[1] for value in seqloom_studies.COMMANDS.values()}
    home = Path(seqloom_studies.__file__).parent
    assert folders == {path.parent.name for path in home.glob("*/command.py")}
    for folder in folders:
        words = (home / folder / "README.md").read_text(encoding="utf-8")
        assert all(f"**{part}.**" in words for part in ("Question", "Answer", "Command")), folder
        assert f"seqloom study {folder.replace('_', '-')}" in words, folder

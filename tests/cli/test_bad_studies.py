"""Studies that cannot run, report or resume: one line on standard error, exit code 2, and no file lost or changed."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from seqloom.cli import command
from seqloom.runs.layout import identity, seal_settings
from seqloom.studies.probe_cell import ProbeCell
from seqloom.studies.results import read
from seqloom.studies.runner import run
from tests.cli.conftest import Answer, Seqloom
from tests.studies.cells import Square, study

SMALL = ["--preset", "tiny", "--source", "stories:30:0"]
COMMANDS = {
    "compare": ["compare", "she", *SMALL],
    "bench": ["bench", "he", "--context", "8", "--dim", "32"],
    "recall": ["study", "recall", "he", "--batches", "2", "--batch", "2"],
    "extrapolate": ["study", "extrapolate", "{run}", "--lengths", "4", "--data", "stories:3"],
    "question": ["study", "question", "me", "--pairs", "2", "--batches", "2"],
    "patches": ["study", "patches", "fnet", "--source", "images:shapes:8:40", "--batches", "2"],
    "pictures": ["study", "pictures", "gru", "--source", "images:shapes:8:40", "--batches", "2"],
    "figures": ["study", "figures", "gru", "--length", "4", "--figure", "gradients"],
    "numbers": ["study", "numbers", "gru", "--source", "numbers:sines", "--batches", "2"],
    "markov-gap": ["study", "markov-gap", "me", "--orders", "1", "--hidden", "0", "--batches", "2"],
    "agents": ["study", "agents", "he", "--data", "TMaze-10:random", "--episodes", "4", "--contexts", "2"],
    "maze": ["study", "maze", "gtrxl", "--lengths", "10", "--batches", "2"],
    "paper": ["study", "paper", "fig8", "--scale", "tiny", "--source", "stories:30:0"],
}
"""each study with arguments under which it would run"""
WITHOUT_CELLS = {
    "compare": (["compare", *SMALL], "contenders"),
    "recall": (["study", "recall"], "Missing argument"),
    "extrapolate": (["study", "extrapolate", "--lengths", "4"], "Missing argument"),
    "extrapolate without lengths": (["study", "extrapolate", "{run}", "--lengths", ""], "--lengths"),
    "markov-gap without orders": (["study", "markov-gap", "he", "--orders", ""], "--orders"),
    "agents without episodes": (["study", "agents", "he", "--episodes", ""], "--episodes"),
    "maze without lengths": (["study", "maze", "--lengths", ""], "--lengths"),
    "paper": (["study", "paper"], "Missing argument"),
    "paper without a model": ([*COMMANDS["paper"], "--only", "gru"], "has no such model"),
}
NO_COMPARISON = {
    "nothing": lambda path: None,
    "an empty folder": lambda path: path.mkdir(),
    "a file": lambda path: path.write_text("{}"),
    "a folder of another study": lambda path: run(study([Square("one", 1)]), path),
    "a comparison that is a folder": lambda path: (path / "comparison.json").mkdir(parents=True),
    "a comparison without a format": lambda path: (path.mkdir(), (path / "comparison.json").write_text("{}")),
    "a link to itself": lambda path: path.symlink_to(path),
}


def files(folder: Path) -> dict[str, bytes]:
    """The contents of all files under a folder, without locks, which say who took them last."""
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "lock"}


def one_line(answer: Answer, says: str = "") -> str:
    """The line of an error; whatever a command prints before it is no error."""
    line = answer.err.strip().splitlines()[-1]
    assert answer.code == 2, answer
    assert "Traceback" not in answer.err
    assert says in line, line
    return line


@pytest.mark.parametrize("name", [name for name in COMMANDS if name != "bench"])  # a race has one process
def test_no_processes(name: str, seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "new"
    answer = seqloom(*(word.replace("{run}", str(trained)) for word in COMMANDS[name]), "--out", out, "--jobs", 0)
    one_line(answer, "--jobs")
    assert not out.exists()


@pytest.mark.parametrize("name", WITHOUT_CELLS)
def test_a_study_without_cells(name: str, seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    words, says = WITHOUT_CELLS[name]
    out = tmp_path / "new"
    one_line(seqloom(*(word.replace("{run}", str(trained)) for word in words), "--out", out), says)
    assert not out.exists()


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_folder_of_another_study(name: str, seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    out = tmp_path / "squares"
    run(study([Square("one", 1)]), out)
    before = files(out)
    answer = seqloom(*(word.replace("{run}", str(trained)) for word in COMMANDS[name]), "--out", out)
    one_line(answer, "holds a run of other settings")
    assert files(out) == before


def test_a_comparison_of_other_settings(seqloom: Seqloom, tmp_path: Path) -> None:
    words = [*COMMANDS["compare"], "--out", tmp_path, "--set", "training.batches=2"]
    (tmp_path / "config.json").write_bytes(seal_settings({"study": "compare", "model": {"dim": 7}}))
    before = files(tmp_path)
    one_line(seqloom(*words), "holds a run of other settings")
    assert files(tmp_path) == before


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"format": 0, "rows": []}, "of format 0, and this seqloom reads 1: choose another --out"),
        ({"format": 1, "rows": [{"mixer": "he"}]}, "rows of an older format"),
        ({"rows": []}, "is no rows of a study"),
    ],
)
def test_rows_of_an_older_format(content: dict[str, object], says: str, seqloom: Seqloom, tmp_path: Path) -> None:
    (cell,) = _cells()
    folder = tmp_path / cell.name
    folder.mkdir(parents=True)
    (folder / "rows.json").write_bytes(seal_settings({**content, "cell": identity(cell.settings), "origin": {}}))
    before = files(tmp_path)
    one_line(seqloom(*COMMANDS["recall"], "--out", tmp_path), says)
    assert files(tmp_path) == before


def _cells() -> list[ProbeCell]:
    from seqloom.studies.candidates import parse_candidate
    from seqloom.studies.recall import Recall

    return list(Recall([parse_candidate("he")], ["mqar"], [1], batches=2, batch=2).cells())


def fails(error: BaseException) -> Callable[..., NoReturn]:
    """A cell's `run` that raises."""

    def run(cell: ProbeCell, folder: Path, *_: object) -> NoReturn:
        raise error

    return run


@pytest.fixture(scope="module")
def recalled(tmp_path_factory: pytest.TempPathFactory, _own_cache: None) -> Path:
    """The folder of the study of recall, done; copy it to go on."""
    out = tmp_path_factory.mktemp("recalled") / "study"
    assert command([*COMMANDS["recall"], "--out", str(out)]) == 0
    return out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("error", "says"),
    [
        (MemoryError(), "out of memory: choose a smaller model or batch"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory"),
        (OSError(28, os.strerror(28), "metrics.jsonl"), "metrics.jsonl: No space left on device"),
    ],
)
def test_a_cell_that_fails(
    error: BaseException, says: str, seqloom: Seqloom, recalled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = shutil.copytree(recalled, tmp_path / "study")
    before = read(out)
    monkeypatch.setattr(ProbeCell, "run", fails(error))
    answer = seqloom(*COMMANDS["recall"], "--seeds", 2, "--out", out)
    line = one_line(answer, says)
    assert line.endswith("the same command tries it again")
    after = read(out)
    assert [row for row in after if "failed" not in row or row["failed"] is None] == before, "no row is lost"
    assert [says in row["failed"] for row in after if row.get("failed")] == [True]


@pytest.mark.slow
def test_a_signal_in_a_cell(seqloom: Seqloom, recalled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = shutil.copytree(recalled, tmp_path / "study")
    before = read(out)
    monkeypatch.setattr(ProbeCell, "run", fails(KeyboardInterrupt()))
    answer = seqloom(*COMMANDS["recall"], "--seeds", 2, "--out", out)
    assert (answer.code, "the same command continues with" in answer.err.strip().splitlines()[-1]) == (130, True)
    assert read(out) == before, "no row is lost"


@pytest.mark.parametrize("name", NO_COMPARISON)
def test_a_report_of_a_folder_that_holds_no_comparison(name: str, seqloom: Seqloom, tmp_path: Path) -> None:
    path = tmp_path / "out"
    NO_COMPARISON[name](path)
    before = files(tmp_path)
    answer = seqloom("report", path)
    one_line(answer, str(path))
    assert len(answer.err.strip().splitlines()) == 1
    assert files(tmp_path) == before

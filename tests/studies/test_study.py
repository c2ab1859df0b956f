"""The engine: cells run once, rows under digests, failures as rows, timed cells alone, errors of a wrong folder."""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs.layout import seal_settings
from seqloom.studies import results, runner, workers
from seqloom.studies.results import Results, read
from seqloom.studies.runner import Workers, preview, run
from seqloom.studies.study import Cell, Stopped, Study
from tests.special_files import hostile_modules
from tests.studies.cells import Number, Square, Timed, study

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "EVERY", 0.02)


def numbers(actual: Results) -> dict[str, int]:
    return {name: rows[0].value for name, rows in actual.rows.items() if isinstance(rows[0], Number)}


def test_a_cell_runs_once_and_its_rows_are_stored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = [Square("two", 2), Square("deep/three", 3)]
    assert numbers(run(study(cells), tmp_path, command="seqloom study squares")) == {"two": 4, "deep/three": 9}
    assert "run 2 of 2, deep/three: done" in capsys.readouterr().err
    lines = read(tmp_path)
    assert [(line["cell"], line["value"], line["command"]) for line in lines] == [
        ("deep/three", 9, "seqloom study squares"),
        ("two", 4, "seqloom study squares"),
    ]
    broken = [Square("two", 2, "value"), Square("deep/three", 3, "value")]  # who runs again, fails
    assert numbers(run(study(broken), tmp_path)) == {"two": 4, "deep/three": 9}
    assert capsys.readouterr().err == ""


def test_a_later_stage_reads_the_rows_of_an_earlier_one(tmp_path: Path) -> None:
    def stages(actual: Results) -> Iterator[Sequence[Cell]]:
        yield [Square("one", 3)]
        yield [Square("next", row.value) for row in actual.of(Number)]

    whole = Study("squares", {}, stages)
    assert [cell.name for cell in preview(whole, tmp_path)] == ["one"], "the second is not known yet"
    assert numbers(run(whole, tmp_path)) == {"one": 9, "next": 81}
    assert [cell.name for cell in preview(whole, tmp_path)] == ["one", "next"]


@pytest.mark.parametrize(
    "content",
    [{}, {"cell": "x"}, {"rows": 3}, {"rows": [3]}, {"rows": None}, {"cell": None}, {"origin": []}, {"cell": ["x"]}],
)
def test_rows_that_no_cell_wrote(tmp_path: Path, content: dict[str, Any]) -> None:
    whole = {"format": 1, "cell": "x", "rows": [], "origin": {}}
    odd = {**whole, **content} if content else {"format": 1}
    (tmp_path / "two").mkdir()
    (tmp_path / "two/rows.json").write_bytes(seal_settings(odd))
    if odd == whole:  # rows of other settings: the cell is run again
        assert numbers(run(study([Square("two", 2)]), tmp_path)) == {"two": 4}
        return
    with pytest.raises(ValueError, match=r"two/rows\.json has no rows of a cell") as raised:
        run(study([Square("two", 2)]), tmp_path)
    assert "\n" not in str(raised.value)


def test_a_cell_without_rows(tmp_path: Path) -> None:
    cell = Square("two", 2)
    (tmp_path / "two").mkdir()
    (tmp_path / "two/rows.json").write_bytes(seal_settings({"format": 1, "cell": cell.key, "rows": [], "origin": {}}))
    with pytest.raises(ValueError, match=r"two/rows\.json has no rows of a cell: move it away"):
        run(study([cell]), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("error", ["", "fault"])
@pytest.mark.parametrize("odd", ["link", "fifo"])
@pytest.mark.parametrize("jobs", [1, 2])
def test_a_log_is_not_written_through_what_lies_there(tmp_path: Path, jobs: int, odd: str, error: str) -> None:
    letter, out = tmp_path / "letter.txt", tmp_path / "out"
    letter.write_text("Dear")
    (out / "logs").mkdir(parents=True)
    log = out / "logs" / "two.log"
    if odd == "link":
        log.symlink_to(letter)
    else:
        os.mkfifo(log)
    result = run(study([Square("two", 2, error)]), out, Workers(jobs=jobs))
    assert list(result.failed) == (["two"] if error else [])
    assert letter.read_text() == "Dear"
    if jobs > 1 or error:
        assert log.is_file()
        assert not log.is_symlink()


@pytest.mark.slow
def test_cells_in_processes_run_no_code_of_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hostile_modules(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(ROOT), *sys.path])  # for the module of the cells
    assert numbers(run(study([Square("two", 2)]), tmp_path / "out", Workers(jobs=2))) == {"two": 4}
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("linked", ["logs", "two"])
def test_folders_of_a_study_that_are_links_are_not_written_to(tmp_path: Path, jobs: int, linked: str) -> None:
    other, out = tmp_path / "mine", tmp_path / "out"
    other.mkdir()
    out.mkdir()
    (out / linked).symlink_to(other)
    cells = [Square("two", 2, "fault" if linked == "logs" else "")]
    if jobs > 1 and linked == "logs":
        with pytest.raises(ValueError, match="out/logs is a link"):
            run(study(cells), out, Workers(jobs=jobs))
    else:
        why = run(study(cells), out, Workers(jobs=jobs)).failed["two"]
        assert why == "KeyError: 'of our own'" if linked == "logs" else "out/two is a link" in why
    assert list(other.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "why"),
    [
        ("value", "too odd to be squared"),
        ("memory", "out of memory"),
        ("torch", "out of memory"),
        ("disk", "metrics.jsonl: No space left on device"),
        ("fault", "KeyError: 'of our own'"),
    ],
)
def test_a_cell_that_fails_is_a_row_and_the_others_go_on(tmp_path: Path, error: str, why: str) -> None:
    cells = [Square("bad", 2, error), Square("good", 3)]
    result = run(study(cells), tmp_path)
    assert numbers(result) == {"good": 9}
    assert why in result.failed["bad"]
    assert "\n" not in result.failed["bad"]
    assert why in next(line["failed"] for line in read(tmp_path) if line["cell"] == "bad")
    assert (tmp_path / "logs" / "bad.log").is_file() == (error == "fault"), "a fault of ours leaves its traceback"
    again = run(study([Square("bad", 2), cells[1]]), tmp_path)
    assert (numbers(again), again.failed) == ({"bad": 4, "good": 9}, {}), "the same command tries it again"


@pytest.mark.slow
def test_a_process_that_is_killed_is_a_row_and_a_race_is_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here: list[str] = []
    real = runner._run_here
    monkeypatch.setattr(runner, "_run_here", lambda cell, *more: here.append(cell.name) or real(cell, *more))
    cells = [Timed("race", 5), Square("bad", 2, "killed"), Square("wrong", 2, "value"), Square("good", 3)]
    result = run(study(cells), tmp_path, Workers(jobs=2))
    assert numbers(result) == {"good": 9, "race": 25}
    assert "killed by SIGKILL: the system does so when the memory is not enough" in result.failed["bad"]
    assert result.failed["wrong"] == "too odd to be squared"
    assert here == ["race"], "in this process, with all cores, after the others"


def test_ctrl_c_in_a_measurement_saves_the_others(tmp_path: Path) -> None:
    with pytest.raises(Stopped, match="the same command continues with bad") as stopped:
        run(study([Square("good", 3), Square("bad", 2, "interrupted"), Square("later", 4)]), tmp_path)
    assert stopped.value.code == 130
    assert [line["cell"] for line in read(tmp_path)] == ["good"]


def test_a_study_without_cells(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="the study squares has no cells"):
        run(study([]), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_study(tmp_path: Path) -> None:
    run(study([Square("one", 1)], text="A"), tmp_path)
    with pytest.raises(ValueError, match='holds a run of other settings: text is "A" there and "B" here'):
        run(study([Square("two", 2)], text="B"), tmp_path)
    assert not (tmp_path / "two").exists()


def test_rows_of_other_settings_are_measured_again(tmp_path: Path) -> None:
    run(study([Square("one", 1)]), tmp_path)
    assert numbers(run(study([Square("one", 5)]), tmp_path)) == {"one": 25}


def document(path: Path, **changes: Any) -> None:
    """A rows.json with changes, under a right digest."""
    content = {**json.loads(path.read_text()), **changes}
    content.pop("sha256")
    path.write_bytes(seal_settings(content))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"format": 0}, "is of format 0, and this seqloom reads 1: choose another --out"),
        ({"format": 2}, "is of format 2, and this seqloom reads 1: update seqloom"),
        ({"format": None}, "is no rows of a study"),
        ({"rows": [{"number": 4}]}, r"has rows of an older format \(value: Field required\): choose another --out"),
        ({"rows": [{"value": 4, "loss": 1}]}, r"has rows of an older format \(loss: Extra inputs"),
    ],
)
def test_rows_of_another_format(tmp_path: Path, changes: dict[str, Any], says: str) -> None:
    run(study([Square("one", 1)]), tmp_path)
    document(tmp_path / "one" / "rows.json", **changes)
    with pytest.raises(ValueError, match=says) as error:
        run(study([Square("one", 1)]), tmp_path)
    assert "\n" not in str(error.value)


def test_altered_rows_are_noticed(tmp_path: Path) -> None:
    run(study([Square("one", 1)]), tmp_path)
    path = tmp_path / "one" / "rows.json"
    path.write_text(path.read_text().replace('"value": 1', '"value": 2'))
    with pytest.raises(ValueError, match="is altered: its sha256"):
        run(study([Square("one", 1)]), tmp_path)
    table = tmp_path / results.RESULTS
    table.write_text(table.read_text().replace('"value": 1', '"value": 2'))
    with pytest.raises(ValueError, match="line 1 is damaged"):
        read(tmp_path)
    with pytest.raises(FileNotFoundError, match="no results of a study there"):
        read(tmp_path / "one")


def test_no_jobs() -> None:
    with pytest.raises(ValueError, match="--jobs must be at least 1, not 0"):
        Workers(jobs=0)

"""Rows of a study that are not those of its page, under valid checksums: one line that says which, and what to do."""

import json
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from seqloom.cli import command
from seqloom.report.results import read
from seqloom_studies.maze.page import Turn
from tests.studies.page_rows import USUAL, study

NUMBERS = {
    "agents": ("asked", "mean", "error", "lowest", "highest"),
    "maze": ("reached", "steps"),
    "extrapolate": ("loss", "beyond"),
    "markov-gap": ("gap", "truth", "rate"),
    "question": ("lr", "accuracy", "chance"),
    "figures": ("x", "y"),
    "numbers": ("lr", "held_out", "error", "best"),
    "pictures": ("bits",),
    "patches": ("held_out", "accuracy", "chance"),
}
COUNTS = {
    "agents": ("episodes", "context", "seed"),
    "maze": ("length", "seed", "batches", "parameters"),
    "extrapolate": ("context", "seed", "length"),
    "markov-gap": ("order", "context"),
    "question": ("seed", "batches", "parameters", "state_bytes"),
    "figures": (),
    "numbers": ("seed", "context", "parameters"),
    "pictures": ("seed", "parameters", "multiplications", "pictures"),
    "patches": ("seed", "patches", "parameters", "multiplications", "pictures"),
}
TEXTS = {
    "agents": ("environment", "policy", "learner", "mixer"),
    "maze": ("agent",),
    "extrapolate": ("run", "mixer", "position", "text", "refused"),
    "markov-gap": ("model", "source"),
    "question": ("mixer",),
    "figures": ("figure", "line"),
    "numbers": ("mixer", "source"),
    "pictures": ("mixer", "source"),
    "patches": ("mixer", "source"),
}
ORIGIN = ("date", "commit", "command", "machine")
OF_A_NUMBER = ("12", True, [], {}, 1e101, -1e308, 10**400)
OF_A_COUNT = ("12", True, [], 1.5, -1, 10**30, -(10**400))
OF_A_TEXT = (1, True, [], {})
ODD = [
    (name, column, value)
    for name in USUAL
    for columns, values in (
        (NUMBERS[name], OF_A_NUMBER), (COUNTS[name], OF_A_COUNT), (TEXTS[name] + ORIGIN, OF_A_TEXT),
    )
    for column in columns
    for value in values
] + [("agents", "findings", value) for value in (None, "asked", [1], {})]  # fmt: skip


def error_of(out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The only line that `seqloom report OUT` writes; it writes no page."""
    assert command(["report", str(out)]) == 2
    printed, error = capsys.readouterr()
    assert printed == ""
    assert error.count("\n") == 1
    assert not list(out.glob("*.html"))
    return error


@pytest.mark.slow
@pytest.mark.parametrize("name", USUAL)
def test_a_column_that_does_not_fit(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _, column, value in (odd for odd in ODD if odd[0] == name):
        rows = [USUAL[name](), USUAL[name](**{column: value})]
        error = error_of(study(tmp_path, name, rows), capsys)
        says = f"{tmp_path / 'results.jsonl'}: line 2: {column}"
        assert says in error, (column, value)
        assert f"make it again with `seqloom study {name}`, or choose another folder" in error


@pytest.mark.parametrize("name", USUAL)
def test_a_column_that_is_missing(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for column in USUAL[name]().keys() - {"failed"}:
        rows = [{other: value for other, value in USUAL[name]().items() if other != column}, USUAL[name]()]
        assert f"line 1: {column}: Field required: " in error_of(study(tmp_path, name, rows), capsys)


@pytest.mark.parametrize("name", USUAL)
@pytest.mark.parametrize("number", ["NaN", "Infinity", "1e999"])
def test_a_number_that_is_none(tmp_path: Path, name: str, number: str, capsys: pytest.CaptureFixture[str]) -> None:
    column = NUMBERS[name][0]
    out = study(tmp_path, name, [])
    text = json.dumps(USUAL[name](**{column: "?"})).replace('"?"', number)
    line = f'{text[:-1]}, "crc32": {crc32(text.encode())}}}\n'
    (out / "results.jsonl").write_text(line, encoding="utf-8")
    says = f"line 1: {column}: Input should be a finite number" if number == "1e999" else "line 1 is damaged"
    assert says in error_of(out, capsys)


@pytest.mark.parametrize("name", USUAL)
def test_no_row_to_show(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert f"has no row of `seqloom study {name}` to show: it is empty" in error_of(study(tmp_path, name, []), capsys)
    failed = study(tmp_path, name, [{"cell": "a", "failed": "no memory"}])
    assert "all its trainings failed" in error_of(failed, capsys)
    (tmp_path / "results.jsonl").write_bytes(b"\xff\n")
    assert "line 1 is damaged" in error_of(tmp_path, capsys)


@pytest.mark.parametrize("name", USUAL)
def test_rows_of_another_study(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for other in USUAL.keys() - {name}:
        error = error_of(study(tmp_path, name, [USUAL[other]()]), capsys)
        assert ": Field required: make it again" in error


def test_rows_that_failed_are_left_out_and_other_columns_ignored(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"cell": "a", "failed": "no memory"}, USUAL["maze"](cell="b", played=3)]
    (row,) = read(study(tmp_path, "maze", rows), "maze", Turn)
    assert (row.agent, row.length, row.reached, row.commit) == ("lstm", 10, 0.5, "abc")
    with pytest.raises(FileNotFoundError, match="no results of a study there; give its --out"):
        read(tmp_path / "other", "maze", Turn)

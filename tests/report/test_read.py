"""Errors in a comparison are one line that names the position."""

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.report.page import write
from seqloom.report.read import _run, read
from seqloom.runs import checkpoint
from seqloom.runs.about import ROWS
from seqloom.runs.metrics import Metrics
from seqloom.runs.rows import encode
from tests.report.making import comparison

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison(tmp_path_factory.mktemp("whole"), steps=20)


def test_reads_rows(whole: Path) -> None:
    result = read(whole)
    assert len(result.styles) == len(result.contenders) == 7
    assert [len(run.losses) for run in result.contenders[0].seeds] == [20, 20]
    assert [step for step, _ in result.contenders[0].seeds[0].held_out] == [6, 13, 20]
    assert result.contenders[0].span("held-out loss") is not None


def test_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"seqloom compare … --out") as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda all: all.update(format=3), "newer than this seqloom reads"),
        (lambda all: all.pop("format"), "no format"),
        (lambda all: all.pop("columns"), "columns: Field required"),
        (lambda all: all["columns"][0].update(better="up"), r"columns\.0\.better"),
        (lambda all: all["contenders"][1].update(name="she"), "called the same"),
        (lambda all: all["contenders"][0]["views"][0].update(axes=["lag"]), "do not fit"),
        (lambda all: all["contenders"].clear(), "contenders"),
    ],
)
def test_broken_comparisons(whole: Path, tmp_path: Path, change: Change, message: str) -> None:
    raw = json.loads((whole / "comparison.json").read_text(encoding="utf-8"))
    change(raw)
    (tmp_path / "comparison.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=message) as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


def test_not_json(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read(tmp_path)


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    """The rows of a run of 20 batches: 23 lines."""
    return comparison(tmp_path, steps=20) / "she" / "seed-1" / "metrics.jsonl"


def test_a_torn_last_line_is_left_out(rows: Path, tmp_path: Path) -> None:
    with rows.open("ab") as file:
        file.write(b'{"step": 21, "co')
    run = read(tmp_path).contenders[0].seeds[1]
    assert (len(run.losses), run.damage) == (20, None)


@pytest.mark.slow
def test_a_loss_that_is_no_finite_number_is_left_out(rows: Path, tmp_path: Path) -> None:
    losses = [None, "4", [1], True, 10**400, 2**60, 3.5, 3]
    rows.write_bytes(b"".join(encode({"step": step, "loss": loss}) for step, loss in enumerate(losses)))
    assert read(tmp_path).contenders[0].seeds[1].losses == [(6, 3.5), (7, 3.0)]


@pytest.mark.slow
def test_damaged_rows_are_left_out_and_named(rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = rows.read_bytes().splitlines(keepends=True)
    lines[4] = lines[4].replace(b"loss", b"cast")
    lines[8] = b'{"step": 9, "co\n'
    rows.write_bytes(b"".join(lines))
    run = read(tmp_path).contenders[0].seeds[1]
    assert len(run.losses) == 18
    assert run.damage == "2 damaged (lines 5, 9): left out"
    page = write(tmp_path)
    message = "she/seed-1/metrics.jsonl: 2 damaged (lines 5, 9): left out"
    assert capsys.readouterr().err.splitlines() == [message]
    assert message in page.read_text(encoding="utf-8")


def _count(rows: Path) -> None:
    """Saves a checkpoint that counts all rows there are, as training does."""
    with Metrics(rows) as metrics:
        checkpoint.save(rows.parent / "checkpoints", 20, {"model": {}}, {ROWS: metrics.mark.row()})


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: lines, None),
        (lambda lines: [*lines, encode({"step": 21, "loss": 1.0})], None),
        (lambda lines: lines[:-2], "of the 23 rows that the run's checkpoint counts, 2 missing"),
        (lambda lines: lines[:3] + lines[4:], "of the 23 rows that the run's checkpoint counts, 1 missing"),
        (
            lambda lines: [lines[1], lines[0], *lines[2:]],
            "of the 23 rows that the run's checkpoint counts, some were deleted, added or exchanged",
        ),
        (
            lambda lines: [b"{}\n", *lines[1:-1]],
            "1 damaged (line 1): left out; "
            "of the 23 rows that the run's checkpoint counts, 1 damaged (line 1) and 1 missing",
        ),
    ],
)
def test_rows_that_a_checkpoint_counts_and_that_are_not_there(rows: Path, tmp_path: Path, change, message: str) -> None:
    _count(rows)
    rows.write_bytes(b"".join(change(rows.read_bytes().splitlines(keepends=True))))
    assert read(tmp_path).contenders[0].seeds[1].damage == message


@pytest.mark.slow
def test_every_flipped_bit_is_named(rows: Path) -> None:
    _count(rows)
    out, whole = rows.parents[2], rows.read_bytes()
    raw = read(out)
    for bit in random.Random(1).sample(range(len(whole) * 8), 60):
        flipped = bytearray(whole)
        flipped[bit // 8] ^= 1 << bit % 8
        rows.write_bytes(flipped)
        run = _run(out, raw.contenders[0], "she/seed-1")
        assert run.damage is not None, bit
        assert set(run.losses) < set(raw.contenders[0].seeds[1].losses) or run.held_out, bit


@pytest.mark.slow
def test_no_rows_at_all(rows: Path, tmp_path: Path) -> None:
    rows.unlink()
    with pytest.raises(FileNotFoundError, match="no rows of a run of she"):
        read(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("odd", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero")])
def test_rows_that_are_no_regular_file(rows: Path, tmp_path: Path, odd: Callable[[Path], object]) -> None:
    rows.unlink()
    odd(rows)
    with pytest.raises(ValueError, match="not a regular file"):
        read(tmp_path)


def test_a_comparison_that_is_no_document(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text("[" * 200_000 + "]" * 200_000)
    with pytest.raises(ValueError, match="nested more than 100 deep"):
        read(tmp_path)
    with (tmp_path / "comparison.json").open("wb") as file:
        file.truncate(2**40)
    with pytest.raises(ValueError, match="too large"):
        read(tmp_path)

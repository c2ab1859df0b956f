"""What is wrong with a comparison is one line that says where."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.report.read import read
from tests.report.making import comparison

Change = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison(tmp_path_factory.mktemp("whole"), steps=20)


def test_reads_rows_and_colours(whole: Path) -> None:
    found = read(whole)
    assert [each.slot for each in found.contenders] == list(range(7))
    assert [len(run.costs) for run in found.contenders[0].seeds] == [20, 20]
    assert [step for step, _ in found.contenders[0].seeds[0].held_out] == [6, 13, 20]
    assert found.contenders[0].span("held-out cost") is not None


def test_no_comparison(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"seqloom compare … --out") as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "said"),
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
def test_broken_comparisons(whole: Path, tmp_path: Path, change: Change, said: str) -> None:
    raw = json.loads((whole / "comparison.json").read_text(encoding="utf-8"))
    change(raw)
    (tmp_path / "comparison.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=said) as error:
        read(tmp_path)
    assert "\n" not in str(error.value)


def test_not_json(tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text("{")
    with pytest.raises(ValueError, match="not JSON"):
        read(tmp_path)


def test_broken_rows(tmp_path: Path) -> None:
    out = comparison(tmp_path, steps=20)
    path = out / "she" / "seed-1" / "metrics.jsonl"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:4], '{"step": 5, "co', *lines[5:]]) + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 5"):
        read(out)
    path.write_text("\n".join([*lines, '{"step": 21, "co']))
    assert len(read(out).contenders[0].seeds[1].costs) == 20, "a torn last line is left out"
    path.write_text('{"step": 1, "cost": null}\n{"step": 2, "cost": 3.5}\n')
    assert read(out).contenders[0].seeds[1].costs == [(2, 3.5)], "a cost that was not finite is left out"
    path.unlink()
    with pytest.raises(FileNotFoundError, match="no rows of a run of she"):
        read(out)

"""Numbers that no comparison has: the page is written, or the file is named in one line."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.report import page
from seqloom.report.measured import list_measured
from seqloom.report.needs import needs
from seqloom.report.page import Report
from seqloom.report.read import read
from seqloom.runs.rows import encode
from tests.report.making import comparison

pytestmark = pytest.mark.slow


def each(value: Any, number: object) -> Any:
    """The value with all its numbers replaced."""
    if isinstance(value, dict):
        return {name: each(item, number) for name, item in value.items()}
    if isinstance(value, list):
        return [each(item, number) for item in value]
    return number if isinstance(value, int | float) and not isinstance(value, bool) else value


def changed(out: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    comparison(out, steps=30, seeds=2)
    path = out / "comparison.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    change(content)
    path.write_text(json.dumps(content), encoding="utf-8")
    return out


@pytest.mark.parametrize("number", [-1, 0, -1e100, 5e-324])
@pytest.mark.parametrize("part", ["row", "spread", "by_position"])
def test_a_report_of_one_number(tmp_path: Path, part: str, number: float) -> None:
    def change(content: dict[str, Any]) -> None:
        for contender in content["contenders"]:
            contender[part] = each(contender[part], number)

    rows = read(changed(tmp_path, change))
    assert len(Report.from_rows(rows).table) == 7
    assert all(need.taken for need in needs(list_measured(rows)))


def test_a_page_of_minus_ones(tmp_path: Path) -> None:
    def change(content: dict[str, Any]) -> None:
        for contender in content["contenders"]:
            contender |= {
                name: each(contender[name], -1) for name in ("row", "spread", "by_position", "seconds_a_batch")
            }

    out = changed(tmp_path, change)
    for path in out.rglob("metrics.jsonl"):
        path.write_bytes(b"".join(encode({"step": step, "loss": -1, "held_out": -1}) for step in range(1, 30)))
    assert "-1" in page.write(out).read_text(encoding="utf-8")


@pytest.mark.parametrize("number", [1e101, -1e308, 10**400])
@pytest.mark.parametrize("part", ["row", "spread", "by_position", "samples", "views"])
def test_numbers_whose_sum_is_none(tmp_path: Path, part: str, number: float) -> None:
    def change(content: dict[str, Any]) -> None:
        content["contenders"][0][part] = each(content["contenders"][0][part], number)

    with pytest.raises(
        ValueError, match=rf"comparison\.json: contenders\.0\.{part}.*make the comparison again"
    ) as raised:
        read(changed(tmp_path, change))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("number", [-1, 0, 10**30])
@pytest.mark.parametrize("name", ["seeds", "batches", "batch", "context", "stretch"])
def test_counts_that_are_none(tmp_path: Path, name: str, number: int) -> None:
    with pytest.raises(ValueError, match=rf"comparison\.json: {name}: Input should be "):
        read(changed(tmp_path, lambda content: content.update({name: number})))


def test_losses_of_rows_whose_sum_is_none_are_left_out(tmp_path: Path) -> None:
    out = changed(tmp_path, lambda content: None)
    (out / "she/seed-0/metrics.jsonl").write_bytes(
        b"".join(encode({"step": step, "loss": 1e308 if step > 2 else 4.5}) for step in range(1, 9))
    )
    (she,) = [contender for contender in read(out).contenders if contender.name == "she"]
    assert she.seeds[0].losses == [(1, 4.5), (2, 4.5)]

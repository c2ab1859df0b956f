"""The border between the stages of a training is a line in the charts over the batches."""

import json
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="altair is not installed")

from seqloom.report import losses
from seqloom.report.read import read
from seqloom.runs.rows import encode, parse_row
from tests.report.making import comparison


def staged(out: Path, border: int) -> Path:
    """A comparison whose first contender was trained in two stages."""
    comparison(out, steps=300, seeds=1)
    name = json.loads((out / "comparison.json").read_text(encoding="utf-8"))["contenders"][0]["runs"][0]
    path = out / name / "metrics.jsonl"
    rows = [row for line in path.read_bytes().splitlines() if (row := parse_row(line)) is not None]
    written = [{**row, "stage": 1 + (row["step"] > border)} if "seconds" in row else row for row in rows]
    path.write_bytes(b"".join(encode(row) for row in written))
    return out


@pytest.mark.slow
def test_a_rule_marks_the_border(tmp_path: Path) -> None:
    rows = read(staged(tmp_path, 120))
    assert [contender.seeds[0].stages for contender in rows.contenders] == [[120]] + [[]] * 6
    training, held_out = losses.training(rows)[0], losses.held_out(rows)[0]
    for chart in (training, held_out):
        drawn = json.dumps(chart.specification())
        assert '[{"x": 120.0}]' in drawn
        assert '"stage 2"' in drawn
    tokens = json.dumps(training.specification(1))
    assert f'[{{"x": {120 * 2048.0}}}]' in tokens


@pytest.mark.slow
def test_without_stages_there_is_no_rule(tmp_path: Path) -> None:
    rows = read(comparison(tmp_path, steps=300, seeds=1))
    assert '"stage' not in json.dumps(losses.training(rows)[0].specification())

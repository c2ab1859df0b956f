"""Encoders in a comparison: no text is generated; a report shows their loss, accuracy, curves and views."""

from pathlib import Path

import pytest

from seqloom.cli.work.comparison import format_comparison
from seqloom.report.page import write
from seqloom.studies.candidates import parse_candidate
from tests.studies.comparing import SMALL, compare

ENCODER = [*SMALL, "model.kind=encoder", "training.objective.kind=masked_token"]


@pytest.mark.slow
def test_a_report_of_encoders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.studies.race.ROUNDS", 1)
    result = compare(
        [parse_candidate("attention:heads=2"), parse_candidate("attention:heads=4")], "tiny", ENCODER, tmp_path
    )
    columns = {column.name for column in result.columns}
    assert "right" in columns
    assert not columns & {"bits a byte", "ms a generated token", "grammatical", "agreeing"}
    assert result.text.floor is None
    for each in result.contenders:
        assert 0 <= each.row["right"] <= 1
        assert each.row["ms a step"] > 0
        assert each.row["state bytes"] is None
        assert each.samples == each.by_position == []
        assert {view.layer for view in each.views} == {0}
    assert "right" in format_comparison(result)
    page = write(tmp_path).read_text(encoding="utf-8")
    assert "right" in page
    assert "attention-heads=4" in page

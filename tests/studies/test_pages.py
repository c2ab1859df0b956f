"""`seqloom report` of a study's folder: the page of few rows, and of numbers at the ends of what is allowed."""

import json
from pathlib import Path
from typing import Any

import pytest

from seqloom.cli import command
from seqloom.cli.report import write
from seqloom_studies.agents.page import AgentsReport, Played
from seqloom_studies.extrapolate.page import ExtrapolateReport, Longer
from seqloom_studies.markov_gap.page import Gap, MarkovGapReport
from seqloom_studies.maze.page import MazeReport, Turn
from tests.report.making import comparison
from tests.studies.page_rows import USUAL, gap, longer, played, study, turned

NAMES = {
    "agents": "agents.html",
    "maze": "maze.html",
    "extrapolate": "extrapolate.html",
    "markov-gap": "markov_gap.html",
    "question": "question.html",
    "numbers": "numbers.html",
    "figures": "figures.html",
    "pictures": "pictures.html",
    "patches": "patches.html",
}


def drawn(report: Any) -> list[str]:
    """The headings of a report's charts, each of which can be drawn."""
    return [chart.heading for chart in report.charts if json.dumps(chart.specification(), allow_nan=False)]


@pytest.mark.parametrize("name", USUAL)
def test_the_page_of_one_row(tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["report", str(study(tmp_path, name, [USUAL[name]()]))]) == 0
    assert capsys.readouterr().out == f"the report is {tmp_path / NAMES[name]}\n"
    assert "seqloom study" in (tmp_path / NAMES[name]).read_text(encoding="utf-8")


def test_a_run_whose_folder_has_no_unicode_name_is_shown_by_its_escape(tmp_path: Path) -> None:
    out = study(tmp_path, "extrapolate", [longer(run="alibi\udcff", loss=1.5), longer(run="rotary")])
    assert r"alibi\udcff" in write(out).read_text(encoding="utf-8")


def test_a_comparison_comes_first(tmp_path: Path) -> None:
    comparison(study(tmp_path, "maze", [turned()]), steps=30, seeds=1)
    assert write(tmp_path) == tmp_path / "report.html"


def test_a_folder_of_neither(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no comparison there"):
        write(study(tmp_path, "unknown", [turned()]))
    (tmp_path / "config.json").write_text("[1]", encoding="utf-8")
    with pytest.raises(FileNotFoundError, match="no comparison there"):
        write(tmp_path)
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json is not readable JSON"):
        write(tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("number", [-1.0, 0.0, 1e100, -1e100, 5e-324])
def test_returns_and_losses_of_any_size_are_drawn(number: float) -> None:
    rows = [
        Played.model_validate(played(seed=seed, mixer=mixer, asked=asked, mean=number))
        for seed in range(3) for mixer in ("he", "attention") for asked in (number, 1.0)
    ]  # fmt: skip
    assert drawn(AgentsReport.from_rows(rows)) == ["Return reached and return asked: CartPole-v1:mixed"]
    lengths = [Longer.model_validate(longer(length=length, loss=number, beyond=number)) for length in (8, 16)]
    assert len(drawn(ExtrapolateReport.from_rows(lengths))) == 2
    gaps = [Gap.model_validate(gap(gap=number, order=order)) for order in (0, 2**53)]
    assert drawn(MarkovGapReport.from_rows(gaps)) == ["Distance to the true chain"]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 2**53])
def test_counts_at_their_ends_are_drawn(count: int) -> None:
    maze = MazeReport.from_rows([Turn.model_validate(turned(length=count, batches=count, steps=1e100))])
    assert len(drawn(maze)) == 2
    lengths = [Longer.model_validate(longer(length=count, context=count))]
    assert len(drawn(ExtrapolateReport.from_rows(lengths))) == 1


def test_hidden_chains_alone_have_no_order_to_be_drawn_over() -> None:
    report = MarkovGapReport.from_rows([Gap.model_validate(gap(order=None, source="hmm:8:4:0"))])
    assert report.charts == []
    assert report.table == [("he", ["0.1000"])]


@pytest.mark.slow
def test_the_longest_maze_may_have_trained_for_less() -> None:
    rows = [turned(length=30, batches=50, reached=0.9), turned(length=10, batches=400, reached=1.0)]
    report = MazeReport.from_rows([Turn.model_validate(row) for row in rows])
    assert report.answer[0] == "Right turns 30 steps after the cue: lstm 90%; without memory 50%."
    assert len(drawn(report)) == 3


def test_a_return_asked_for_is_unknown() -> None:
    report = AgentsReport.from_rows([Played.model_validate(played(asked=None))])
    assert (report.answer, report.charts) == ([], [])

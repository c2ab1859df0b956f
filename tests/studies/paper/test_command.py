"""`seqloom study paper` end to end: rows, pages and tables of finished and unfinished cells."""

import csv
import json
import re
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.studies import results
from seqloom_studies.paper import cells, page, writings
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.page_rows import read
from tests.report.reading import data
from tests.report.reading import read as html_of

TWO = ["--only", "she", "--only", "attention:heads=32"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writings, "TOKENS", 5)
    monkeypatch.setattr(cells, "ROUNDS", 1)


def paper(*words: object) -> int:
    return command(["study", "paper", *(str(word) for word in words)])


@pytest.mark.slow
def test_figure_8(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("fig8", "--scale", "tiny", "--out", tmp_path, "--seeds", 2, *TWO) == 0
    out = capsys.readouterr().out
    assert "4 runs of 48 batches in all, 0 finished" in out
    assert "Reduced: dim 32 (paper: 128), depth 1 (paper: 18)" in out
    table = [line.split() for line in out[out.index("Figure 8") :].splitlines()]
    assert [line[0] for line in table if line and line[-1] == "done"] == ["attention-heads=32", "she"]
    assert "The paper makes 8 claims about these models: on the training loss 8 are undecided" in out
    first = out[out.index("SHE does evidently better than 32-head self-attention. (abstract;") :].splitlines()[1:3]
    assert first[0].startswith("  training: undecided (a model has fewer than 3 seeds): SHE - 32 heads: ")
    assert first[1].startswith("  held-out: undecided (a model has fewer than 3 seeds): SHE - 32 heads: ")
    assert "  training: undecided (not all its models were run)" in out
    claims = (tmp_path / "replication.md").read_text()
    assert "1 of the paper's 18 claims about losses is measured so far: on the training loss, as in the paper" in claims
    assert "| SHE does evidently better than 32-head self-attention. *abstract;" in claims
    assert all((tmp_path / name).is_file() for name in re.findall(r"\]\(([^)]+)\)", claims)), "its links lead somewhere"
    html = (tmp_path / "fig8.html").read_text()
    for words in ("Figure 8: self-attention and the Extractors", "Difference to 32 heads"):
        assert words in html
    study = read(tmp_path / "fig8.jsonl")
    assert study.floor
    rows = data(html_of(html))["charts"]["fig8-training"]["tables"]["rows"].splitlines()
    numbers = next(csv.reader(row for row in rows if row.startswith("attention-heads=32")))
    first = sorted(seed.medians[0][2] for seed in study.lines[0].seeds)
    assert tuple(float(number) for number in numbers[2:]) == pytest.approx((sum(first) / 2, *first), rel=1e-4)
    assert paper("fig8", "fig9", "--scale", "tiny", "--out", tmp_path, "--seeds", 2, *TWO) == 0
    again = capsys.readouterr()
    assert "4 runs of 48 batches in all, 4 finished" in again.out
    assert "parameters; in" not in again.err, "nothing is trained again"


@pytest.mark.slow
def test_learning_rates_are_separate_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("lr", "--scale", "tiny", "--out", tmp_path, "--only", "me") == 0
    assert re.findall(r"^me +([\d.]+) ", capsys.readouterr().out, re.M)[-2:] == ["0.0005", "0.001"]
    assert ">0.0005<" in (tmp_path / "lr.html").read_text()


@pytest.mark.slow
def test_a_plan_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("fig10", "--scale", "tiny", "--out", tmp_path / "new", "--plan", "--only", "me") == 0
    output = capsys.readouterr().out
    assert re.search(r"me\.context=8 +1 +0 +12 +[\d,]+ .* +3 steps now", output)
    assert "2 runs of 24 batches in all" in output
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_unfinished_cells_are_shown_as_unfinished(tmp_path: Path) -> None:
    words = ("fig10", "--scale", "tiny", "--out", tmp_path)
    assert paper(*words, "--only", "me") == 0
    from seqloom_studies.paper.rows import write
    from seqloom_studies.paper.scales import scale_of
    from seqloom_studies.paper.studies import STUDIES

    grid = Grid(scale_of("tiny"), tmp_path)
    for name in ("fig10", "fig8", "groups"):
        write(grid, STUDIES[name](grid), 1)
        path = page.write(tmp_path / f"{name}.jsonl")
        assert "Unfinished: " in path.read_text()
    plate = read(tmp_path / "fig10.jsonl")
    assert {line.series for line in plate.lines if line.is_finished} == {"me"}
    assert "Unfinished: 2 of 12 cells are done." in page.caption(plate)
    html = (tmp_path / "fig10.html").read_text()
    rows = re.findall(r'<tr><th scope="row" data-value="(\w+)[^"]*">.*?</tr>', html, re.S)
    assert len(rows) == 12
    assert html.count(">0 of 12</td>") == 10
    assert html.count(">unfinished</td>") == 10
    assert "Nothing is trained yet." in (tmp_path / "groups.html").read_text()
    assert "she (unfinished)" not in (tmp_path / "fig8.html").read_text(), "a curve without a point is not drawn"


@pytest.mark.slow
def test_an_unfinished_curve_is_marked(tmp_path: Path) -> None:
    assert paper("fig8", "--scale", "tiny", "--out", tmp_path, "--only", "me", "--batches", 6) == 0
    assert paper("fig8", "--scale", "tiny", "--out", tmp_path, "--only", "we", "--batches", 12) == 0
    from seqloom_studies.paper.rows import write
    from seqloom_studies.paper.scales import scale_of
    from seqloom_studies.paper.studies import STUDIES

    grid = Grid(scale_of("tiny"), tmp_path)
    write(grid, STUDIES["fig8"](grid), 1)
    html = page.write(tmp_path / "fig8.jsonl").read_text()
    assert "me (unfinished)" in html
    assert "we (unfinished)" not in html
    assert ">6 of 12</td>" in html


@pytest.mark.slow
def test_matched_attention_is_raced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("equal-params", "--scale", "tiny", "--out", tmp_path, "--only", "he") == 0
    output = capsys.readouterr().out
    assert "ms a step, raced" in output
    assert "attention as he: attention: ffn 64 → 56" in output
    assert "attention as she" not in output
    times = [row for row in results.read(tmp_path) if row["cell"] == "races/equal-params"]
    assert {row["contender"] for row in times} == {"he", "attention-heads=32.ffn=56"}
    assert "ms per training step, all by turns" in (tmp_path / "equal-params.html").read_text()


@pytest.mark.slow
def test_table_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert paper("table2", "--scale", "tiny", "--out", tmp_path) == 0
    out = capsys.readouterr().out
    for name in ("attention-heads=32", "she"):
        assert f"{name}: Once upon a time there was a little princess who" in out
    rows = [json.loads(line) for line in (tmp_path / "table2.jsonl").read_text().splitlines()]
    assert [(row["name"], row["batches"], row["top_p"]) for row in rows] == [
        ("attention-heads=32", 12, 0.6),
        ("she", 12, 0.6),
    ]


def test_table_7(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert paper("table7", "table5") == 0
    out = capsys.readouterr().out
    for number in ("20,947,008", "21,710,848", "278,888,448", "14,647,296", "10,469,376", "2,097,152"):
        assert number in out
    assert "all 36 numbers are those that the paper prints" in out
    assert "misprint (self-attention, additions)" in out
    claims = out[out.index("What the paper claims of these numbers") :]
    assert "does not hold: HE takes fewer operations and fewer parameters than 32 heads. (section 8)" in claims
    assert "  36 of 36 numbers are what the mixers charge" in claims
    assert "perplexity" not in claims, "no table shows it"
    assert not list(tmp_path.iterdir()), "a table of formulas needs no folder"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["fig12"], "unknown figure or table 'fig12'"),
        (["fig8", "--scale", "smal"], "unknown scale 'smal'; did you mean 'small'?"),
        (["fig8", "--scale", "tiny", "--only", "rwkv"], "--only rwkv: fig8 has no such model"),
        (["fig8", "--scale", "tiny", "--seeds", "0"], "--seeds must be at least 1"),
        (["fig8", "--scale", "tiny", "--jobs", "0"], "--jobs must be at least 1"),
        (["fig8", "--scale", "tiny", "--batches", "0"], "--batches must be at least 1"),
        (["fig8", "--scale", "tiny", "--source", "nowhere"], "nowhere"),
        (["fig8", "--scale", "tiny", "--set", "model.dimm=3"], "did you mean 'dim'?"),
        (["fig8", "--scale", "tiny", "--cluster", "lsf"], "--cluster 'lsf' is unknown; there is slurm and local"),
        (["fig8", "--scale", "tiny", "--cluster-set", "name=x"], "--cluster-set holds settings of cluster jobs"),
        (["fig8", "--scale", "tiny", "--cluster", "slurm"], "--cluster needs submitit: pip install 'seqloom[cluster]'"),
    ],
)
def test_wrong_calls_of_the_command(
    words: list[str], says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "submitit", None)  # as where it is not installed
    assert paper(*words, "--out", tmp_path / "new") == 2
    output = capsys.readouterr()
    assert says in output.err
    assert output.err.count("\nseqloom: ") + output.err.startswith("seqloom: ") == 1
    assert not (tmp_path / "new" / "cells").exists()

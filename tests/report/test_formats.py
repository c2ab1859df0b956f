"""The table of a comparison as LaTeX, Markdown, CSV, JSON and text."""

import csv
import io
import json
from pathlib import Path

import pytest

from seqloom.report.comparison import Comparison
from seqloom.report.formats import format_table, summarize
from seqloom.report.read import read
from tests.report import making


@pytest.fixture
def rows(tmp_path: Path) -> Comparison:
    return read(making.comparison(tmp_path, seeds=2, steps=30, hostile=True))


def test_latex(rows: Comparison) -> None:
    lines = format_table(rows.with_names({"she": "S_1 & 5%"}), "latex").splitlines()
    assert lines[0] == rf"\begin{{tabular}}{{l{'r' * len(rows.columns)}}}"
    assert [lines[1], lines[3], *lines[-2:]] == [r"\toprule", r"\midrule", r"\bottomrule", r"\end{tabular}"]
    body = lines[4:-2]
    assert len(body) == len(rows.contenders)
    assert all(line.count(" & ") == len(rows.columns) and line.endswith(r" \\") for line in [lines[2], *body])
    assert any(line.startswith(r"S\_1 \& 5\% & ") for line in body)
    assert sum(line.count(r"\textbf") for line in body) > 3
    assert any("$-$0." in line for line in body)


def test_markdown_and_text_and_csv(rows: Comparison) -> None:
    table = format_table(rows, "markdown").splitlines()
    assert len(table) == 2 + len(rows.contenders)
    assert all(line.count(" | ") == len(rows.columns) for line in table)
    text = format_table(rows).splitlines()
    assert text[0].startswith("model")
    assert len(text) == 2 + len(rows.contenders)
    lines = list(csv.DictReader(io.StringIO(format_table(rows, "csv"))))
    assert [float(line["held-out loss"]) for line in lines if line["matched_to"] == ""] == sorted(
        float(line["held-out loss"]) for line in lines if line["matched_to"] == ""
    )
    with pytest.raises(ValueError, match="a table is written as text, latex, markdown, csv, not 'html'"):
        format_table(rows, "html")


def test_what_a_program_reads(rows: Comparison) -> None:
    written = json.loads(json.dumps(summarize(rows)))
    assert written["baseline"] == rows.baseline
    assert [model["name"] for model in written["models"]] == [contender.name for contender in rows.contenders]
    first = written["models"][0]
    assert first["row"]["held-out loss"] == rows.contenders[0].value("held-out loss")
    assert len(first["spread"]["held-out loss"]) == 2
    assert "samples" not in first

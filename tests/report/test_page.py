"""The page holds the numbers of the rows, escapes them, needs no torch, and is always the same."""

import csv
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from seqloom.report import inside, page
from seqloom.report.read import read as rows_of
from tests.docs.reading import private_words
from tests.report.making import HOSTILE, comparison
from tests.report.reading import Element, data, read


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def document(out: Path) -> Element:
    return read(page.write(out).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_table_holds_the_rows(out: Path, document: Element) -> None:
    whole = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    rows = document.one("table", id="models").one("tbody").all("tr")
    by_name = {row.one("th").attributes["data-value"]: row for row in rows}
    assert set(by_name) == {each["name"] for each in whole["contenders"]}
    for each in whole["contenders"]:
        cells = by_name[each["name"]].all("td")
        expected = [each["row"][column["name"]] for column in whole["columns"]]
        assert [cell.attributes["data-value"] for cell in cells] == [
            "" if one is None else str(one) for one in expected
        ]
        for cell, one in zip(cells, expected, strict=True):
            shown = cell.text.removesuffix(" (best)")
            assert (
                shown == "–" if one is None else float(shown.replace(",", "")) == pytest.approx(one, rel=2e-3, abs=5e-4)
            )


@pytest.mark.parametrize(("column", "best"), [("held-out loss", min), ("grammatical", max), ("± held-out", None)])
def test_the_best_of_a_column_is_marked(out: Path, document: Element, column: str, best: object) -> None:
    whole = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    at = [each["name"] for each in whole["columns"]].index(column)
    rows = document.one("table", id="models").one("tbody").all("tr")
    marked = [row.all("td")[at].attributes["data-value"] for row in rows if "(best)" in row.all("td")[at].text]
    values = [each["row"][column] for each in whole["contenders"]]
    assert marked == ([] if best is None else [str(best(values))])  # type: ignore[operator]


def test_a_map_says_how_many_of_its_rows_it_shows(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inside, "CELLS", 2000)
    maps = page.Report.from_rows(rows_of(out)).maps
    assert {one.description.partition(". ")[2] for one in maps} == {"Of 2 rows and columns one is shown."}
    assert {len(one.table.rows) for one in maps} == {16 // 2, 32 // 2}


def test_matched_contenders_stand_beneath(document: Element) -> None:
    rows = document.one("table", id="models").one("tbody").all("tr")
    assert [row.one("th").attributes["data-value"] for row in rows[:2]] == ["she", "aft=she"]
    assert "under" in rows[1].attributes["class"]
    assert "sized to she" in rows[1].one("th").text
    assert rows[0].attributes["data-group"] == rows[1].attributes["data-group"]


@pytest.mark.slow
def test_every_chart_has_its_words_and_its_numbers(out: Path, document: Element) -> None:
    report = page.Report.from_rows(rows_of(out))
    charts = data(document)["charts"]
    assert set(charts) == {chart.name for chart in report.charts}
    assert len(charts) == len(report.charts) > 10
    for chart in report.charts:
        figure = next(each for each in document.all("figure") if each.attributes.get("data-chart") == chart.name)
        assert figure.one("figcaption").one("p").text == chart.description
        assert figure.one("details", **{"class": "numbers"})
        written = list(csv.reader(charts[chart.name]["tables"]["rows"].splitlines()))
        assert written == [[*chart.table.head], *(list(map(_written, row)) for row in chart.table.rows)]


def _written(cell: object) -> str:
    return "" if cell is None else str(cell)


@pytest.mark.slow
def test_every_map_has_its_picture_and_its_numbers(out: Path, document: Element) -> None:
    maps = page.Report.from_rows(rows_of(out)).maps
    assert len(maps) > 4
    for one in maps:
        figure = next(each for each in document.all("figure") if each.attributes.get("data-map") == one.name)
        assert figure.one("img").attributes["src"] == one.picture
        written = list(csv.reader(data(document)["maps"][one.name].splitlines()))
        assert written == [[*map(str, one.table.head)], *([str(cell) for cell in row] for row in one.table.rows)]


@pytest.mark.slow
def test_the_training_chart_has_the_losses_of_the_runs(out: Path) -> None:
    rows = rows_of(out)
    chart = next(chart for chart in page.Report.from_rows(rows).charts if chart.name == "training")
    assert [choice.label.split()[0] for choice in chart.choices] == ["batches", "tokens", "operations", "seconds"]
    she = [row for row in chart.table.rows if row[0] == "she"]
    runs = next(contender for contender in rows.contenders if contender.name == "she").seeds
    medians = [median(loss for _, loss in run.losses[:10]) for run in runs]
    head = chart.table.head
    first = dict(zip(head, she[0], strict=True))
    assert (first["batches"], first["tokens"]) == (5.5, 5.5 * 2048)
    assert [first[name] for name in ("loss", "lowest seed", "highest seed")] == pytest.approx(
        [sum(medians) / len(medians), min(medians), max(medians)], rel=1e-4
    )
    assert len(chart.tables["raw"].rows) == 7 * 300


def test_ids_are_unique_and_controls_labelled(document: Element) -> None:
    tags = ("section", "figure", "table", "script", "main", "button", "h2", "h3")
    ids = [each.attributes["id"] for tag in tags for each in document.all(tag) if "id" in each.attributes]
    assert len(ids) > 10
    assert len(set(ids)) == len(ids)
    labelled = [control for label in document.all("label") for control in label.all("input") + label.all("select")]
    assert len(labelled) == len(document.all("input") + document.all("select"))


@pytest.mark.slow
def test_headings_are_in_order(document: Element) -> None:
    ranks = [int(rank) for rank in re.findall(r"<h(\d)>", headings(document))]
    assert ranks[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(ranks))


def headings(element: Element) -> str:
    """The tags of all headings, in the order of the page."""
    inside = [child for child in element.children if isinstance(child, Element)]
    return "".join((f"<{each.tag}>" if re.fullmatch(r"h\d", each.tag) else "") + headings(each) for each in inside)


@pytest.mark.slow
def test_hostile_text_stays_text(tmp_path: Path) -> None:
    html = page.write(comparison(tmp_path, hostile=True)).read_text(encoding="utf-8")
    document = read(html)
    assert HOSTILE not in html
    assert not any(each.text for each in document.all("b"))
    names = [
        row.one("th").attributes["data-value"] for row in document.one("table", id="models").one("tbody").all("tr")
    ]
    assert HOSTILE in names
    assert HOSTILE in json.dumps(data(document), ensure_ascii=False)
    assert any(HOSTILE in token.text for token in document.all("i"))


def test_no_network(document: Element) -> None:
    for tag in ("script", "img", "link", "iframe"):
        assert all(each.attributes.get("src", "data:").startswith("data:") for each in document.all(tag))
    assert "default-src 'none'" in json.dumps([each.attributes for each in document.all("meta")])
    assert all(each.attributes["href"].startswith("#") for each in document.all("a"))
    assert not re.search(r"(https?:)?//[a-z]", document.one("script", id="data").text)


def test_without_altair_the_page_has_the_numbers(out: Path, document: Element) -> None:
    assert "pip install 'seqloom[report]'" in document.one("header").text
    assert not document.all("div", **{"class": "plot"})
    assert len(document.all("details", **{"class": "numbers"})) > 10
    assert (out / "report.html").stat().st_size < 1_000_000


@pytest.mark.slow
def test_writing_again_gives_the_same_bytes(out: Path) -> None:
    once = page.write(out).read_bytes()
    assert page.write(out).read_bytes() == once
    assert [path.name for path in out.iterdir() if path.is_file()].count("report.html") == 1
    assert not (out / "figures").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "message", "unsaid"),
    [
        ({"grammar": False}, "100 documents", "lower bound of the loss"),
        ({"seeds": 1}, "no difference of their losses can be called significant", "the band goes"),
        ({"timed": False}, "tokens,operations,loss", "operations,seconds"),
    ],
)
def test_what_is_unknown_is_left_out(tmp_path: Path, settings: dict[str, bool], message: str, unsaid: str) -> None:
    text = page.write(comparison(tmp_path, **settings)).read_text(encoding="utf-8")  # type: ignore[arg-type]
    assert message in text
    assert unsaid not in text


@pytest.mark.slow
def test_no_torch() -> None:
    code = "import sys, seqloom.cli.report, seqloom.report.page; sys.exit(bool({'torch', 'numpy'} & {*sys.modules}))"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_each_model_has_one_sentence_on_what_to_look_for(out: Path) -> None:
    sentences: dict[str, list[str]] = {}
    for layer in page.Report.from_rows(rows_of(out)).layers:
        sentences.setdefault(layer.name, []).append(layer.look_for)
    assert sentences
    for name, found in sentences.items():
        assert [bool(sentence) for sentence in found] == [True] + [False] * (len(found) - 1), name
        assert found[0].startswith(f"{name}: ")


def test_a_page_has_no_words_of_our_own(out: Path) -> None:
    text = page.write(out).read_text(encoding="utf-8")
    assert "smallest significant" in text
    assert private_words(text) == []

"""The page holds the numbers of the rows, lets nothing break out, needs no torch, and is always the same."""

import csv
import json
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from seqloom.report import page
from tests.report.making import HOSTILE, comparison
from tests.report.reading import Element, data, read


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return comparison(tmp_path_factory.mktemp("report"))


@pytest.fixture(scope="module")
def found(out: Path) -> Element:
    return read(page.write(out).read_text(encoding="utf-8"))


def test_the_table_holds_the_rows(out: Path, found: Element) -> None:
    whole = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    rows = found.one("table", id="standing").one("tbody").all("tr")
    by_name = {row.one("th").attributes["data-value"]: row for row in rows}
    assert set(by_name) == {each["name"] for each in whole["contenders"]}
    for each in whole["contenders"]:
        cells = by_name[each["name"]].all("td")
        wanted = [each["row"][column["name"]] for column in whole["columns"]]
        assert [cell.attributes["data-value"] for cell in cells] == ["" if one is None else str(one) for one in wanted]
        for cell, one in zip(cells, wanted, strict=True):
            shown = cell.text.removesuffix(" (best)")
            assert (
                shown == "–" if one is None else float(shown.replace(",", "")) == pytest.approx(one, rel=2e-3, abs=5e-4)
            )


@pytest.mark.parametrize(("column", "best"), [("held-out cost", min), ("grammatical", max), ("± held-out", None)])
def test_the_best_of_a_column_is_marked(out: Path, found: Element, column: str, best: object) -> None:
    whole = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    at = [each["name"] for each in whole["columns"]].index(column)
    rows = found.one("table", id="standing").one("tbody").all("tr")
    marked = [row.all("td")[at].attributes["data-value"] for row in rows if "(best)" in row.all("td")[at].text]
    values = [each["row"][column] for each in whole["contenders"]]
    assert marked == ([] if best is None else [str(best(values))])  # type: ignore[operator]


def test_matched_contenders_stand_beneath(found: Element) -> None:
    rows = found.one("table", id="standing").one("tbody").all("tr")
    assert [row.one("th").attributes["data-value"] for row in rows[:2]] == ["she", "aft=she"]
    assert "under" in rows[1].attributes["class"]
    assert "sized to she" in rows[1].one("th").text
    assert rows[0].attributes["data-group"] == rows[1].attributes["data-group"]


def test_every_figure_has_its_picture_its_files_and_its_numbers(out: Path, found: Element) -> None:
    figures = found.all("figure")
    assert len(figures) > 10
    for figure in figures:
        assert any(figure.all(f"h{rank}") for rank in (3, 4))
        assert figure.one("figcaption").one("p").text
        panels = figure.all("div", **{"class": "panel"})
        assert len(panels) == len(data(found)["figures"][figure.attributes["data-figure"]]["panels"])
        for panel in panels:
            name = panel.attributes["data-name"]
            assert panel.one("svg", **{"class": "figure"})
            assert [link.attributes["href"] for link in panel.all("a", download=f"{name}.svg")] == [
                f"figures/{name}.svg"
            ]
            assert (out / "figures" / f"{name}.svg").read_text(encoding="utf-8").startswith("<?xml")
            numbers = (panel.all("details", **{"class": "numbers"}) or figure.all("details", **{"class": "numbers"}))[0]
            written = list(csv.reader((out / "figures" / f"{name}.csv").open(encoding="utf-8")))
            if "data-large" not in numbers.attributes:
                assert [[cell.text for cell in row.all("th") + row.all("td")] for row in numbers.all("tr")] == written


def test_ids_are_unique_and_controls_labelled(found: Element) -> None:
    tags = ("section", "figure", "table", "title", "desc", "svg", "script", "main", "button", "marker")
    ids = [each.attributes["id"] for tag in tags for each in found.all(tag) if "id" in each.attributes]
    assert len(ids) > 20
    assert len(set(ids)) == len(ids)
    labelled = [control for label in found.all("label") for control in label.all("input") + label.all("select")]
    assert len(labelled) == len(found.all("input") + found.all("select"))


def test_headings_are_in_order(found: Element) -> None:
    ranks = [int(rank) for rank in re.findall(r"<h(\d)>", headings(found))]
    assert ranks[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(ranks))


def headings(element: Element) -> str:
    """The tags of all headings, in the order of the page."""
    inside = [each for each in element.children if isinstance(each, Element)]
    return "".join((f"<{each.tag}>" if re.fullmatch(r"h\d", each.tag) else "") + headings(each) for each in inside)


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    html = page.write(comparison(tmp_path, hostile=True)).read_text(encoding="utf-8")
    found = read(html)
    assert HOSTILE not in html
    assert not found.all("b")
    names = [row.one("th").attributes["data-value"] for row in found.one("table", id="standing").one("tbody").all("tr")]
    assert HOSTILE in names
    assert HOSTILE in json.dumps(data(found), ensure_ascii=False)
    assert any(HOSTILE in token.text for token in found.all("i"))


def test_no_network(found: Element) -> None:
    for tag in ("script", "img", "link", "iframe"):
        assert all(each.attributes.get("src", "") == "" for each in found.all(tag))
    assert "default-src 'none'" in json.dumps([each.attributes for each in found.all("meta")])
    assert all(each.attributes["href"].startswith(("#", "figures/")) for each in found.all("a"))


def test_without_plotly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "plotly", lambda: None)
    path = page.write(comparison(tmp_path))
    found = read(path.read_text(encoding="utf-8"))
    assert "pip install 'seqloom[report]'" in found.one("header").text
    assert not found.all("script", id="plotly-source")
    assert len(found.all("svg", **{"class": "figure"})) > 10
    assert path.stat().st_size < 1_000_000


def test_the_same_bytes_again(out: Path) -> None:
    once = page.write(out).read_bytes()
    assert page.write(out).read_bytes() == once
    assert len(once) < 6_000_000


@pytest.mark.parametrize(
    ("settings", "said", "unsaid"),
    [
        ({"grammar": False}, "100 documents", "floor of the text"),
        ({"seeds": 1}, "in one run, which decides nothing", "the band goes"),
        ({"timed": False}, "operations of the forward equation", "seconds of training steps"),
    ],
)
def test_what_is_unknown_is_left_out(tmp_path: Path, settings: dict[str, bool], said: str, unsaid: str) -> None:
    text = page.write(comparison(tmp_path, **settings)).read_text(encoding="utf-8")  # type: ignore[arg-type]
    assert said in text
    assert unsaid not in text


def test_no_torch() -> None:
    code = "import sys, seqloom.report.page; sys.exit('torch' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)

"""A report of all mixers: rows without numbers, limitations, columns by length, and long names."""

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from seqloom.report import page
from seqloom.report.measured import Measured
from seqloom.report.needs import farthest
from seqloom.report.read import read as found_in
from seqloom.report.tradeoffs import pareto, tradeoffs
from tests.report.making import comparison
from tests.report.reading import Element, read

FAR = ("ms a token at 128", "ms a token at 65,536", "state bytes at 65,536")
MANY = 34


def many(out: Path) -> dict[str, Any]:
    """A comparison of 34, of whom the last was not trained, and every fourth has no time far from the first token."""
    path = comparison(out) / "comparison.json"
    written: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    first, *_ = written["contenders"]
    written["columns"] += [{"name": name, "unit": "ms", "better": "lower", "meaning": "far"} for name in FAR]
    written["contenders"] = []
    for at in range(MANY):
        each = copy.deepcopy(first) | {
            "name": f"mixer_{at}",
            "views": [],
            "samples": first["samples"] if at < 2 else [],
        }
        each["row"] |= {name: loss + at / 50 for name, loss in first["row"].items() if name == "held-out loss"}
        each["row"] |= {
            FAR[0]: 1.0 + at,
            FAR[1]: None if at % 4 == 1 else 1.5 ** (MANY - at),
            FAR[2]: 1024 * 2 ** (at % 9),
        }
        each["limitations"] = [f"fly <{at}>", "swim"] if at % 2 else []
        written["contenders"].append(each)
    written["contenders"][-1] |= {
        "row": {},
        "runs": [],
        "by_position": [],
        "spread": {},
        "limitations": ["be trained so: nan"],
    }
    written["left_out"] = [{"name": "gone", "why": "dim 6 is not divisible by heads 4"}]
    path.write_text(json.dumps(written), encoding="utf-8")
    return written


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("many")
    many(folder)
    return folder


@pytest.fixture(scope="module")
def document(out: Path) -> Element:
    return read(page.write(out).read_text(encoding="utf-8"))


@pytest.mark.slow
def test_the_table_scrolls_in_its_own_box(document: Element, tmp_path: Path) -> None:
    assert len(document.one("table", id="models").one("tbody").all("tr")) == MANY
    assert any("tall" in each.attributes["class"].split() for each in document.all("div") if "class" in each.attributes)
    few = read(page.write(comparison(tmp_path)).read_text(encoding="utf-8"))
    assert not any("tall" in each.attributes.get("class", "").split() for each in few.all("div"))
    assert not few.all("table", id="limitations")


@pytest.mark.slow
def test_limitations(document: Element) -> None:
    rows = [
        (row.one("th").text, row.one("td").text)
        for row in document.one("table", id="limitations").one("tbody").all("tr")
    ]
    assert rows[0] == ("gone", "be built at this size, and is left out: dim 6 is not divisible by heads 4.")
    assert rows[1] == ("mixer_1", "fly <1>; swim.")
    assert rows[-1] == (f"mixer_{MANY - 1}", "be trained so: nan.")
    assert len(rows) == 1 + MANY // 2


@pytest.mark.slow
def test_a_mixer_that_was_not_trained_has_a_row_without_numbers(document: Element) -> None:
    rows = document.one("table", id="models").one("tbody").all("tr")
    assert rows[-1].one("th").attributes["data-value"] == f"mixer_{MANY - 1}"
    assert {cell.text for cell in rows[-1].all("td")} == {"–"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("known", "expected"),
    [([FAR[1]], 65_536), ([FAR[0], FAR[1]], 65_536), ([FAR[0]], 128), ([], 0)],
)
def test_prices_are_drawn_at_the_length_that_most_have(out: Path, known: list[str], expected: int) -> None:
    contenders = found_in(out).contenders
    rows = [{"contender": each.name, **{name: each.value(name) for name in known}} for each in contenders]
    assert farthest([Measured.from_row(row) for row in rows]) == expected
    rare = [*rows[:2], *({**row, FAR[1]: None} for row in rows[2:])]
    assert farthest([Measured.from_row(row) for row in rare]) == (128 if FAR[0] in known else 0)


@pytest.mark.slow
def test_the_fronts_of_all(out: Path) -> None:
    document = {chart.name: chart for chart in tradeoffs(found_in(out))}
    assert {"price of ms a step", f"price of {FAR[1]}", f"price of {FAR[2]}"} <= set(document)
    assert f"price of {FAR[0]}" not in document
    rows = document[f"price of {FAR[1]}"].table.rows
    assert len(rows) == sum(at % 4 != 1 for at in range(MANY - 1))
    assert all(row[-1] == "yes" for row in rows), "the dearer, the better: nobody is beaten"


@pytest.mark.parametrize("seed", range(20))
def test_the_front_is_what_brute_force_finds(seed: int) -> None:
    draw = random.Random(seed)
    cloud = {str(k): (float(draw.randrange(8)), float(draw.randrange(8))) for k in range(draw.randrange(25))}

    def beaten(x: float, y: float) -> bool:
        return any(a <= x and b <= y and (a < x or b < y) for a, b in cloud.values())

    document = pareto(cloud)
    assert set(document) == {name for name, point in cloud.items() if not beaten(*point)}
    assert [cloud[name][0] for name in document] == sorted(cloud[name][0] for name in document)
    assert pareto({"a": (1, float("nan")), "b": (float("-inf"), 0), "c": (2, 2)}) == ["c"]


@pytest.mark.slow
def test_among_equal_values_none_is_marked_as_best(out: Path, document: Element) -> None:
    columns = [column.name for column in found_in(out).columns]
    rows = document.one("table", id="models").one("tbody").all("tr")
    marked = {name: sum("(best)" in row.all("td")[at].text for row in rows) for at, name in enumerate(columns)}
    assert (marked["held-out loss"], marked["grammatical"], marked["parameters"]) == (1, 0, 0)

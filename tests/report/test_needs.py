"""Which mixer for which need: chosen by stated rules from invented rows; the report shows it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seqloom.report import page
from seqloom.report.measured import Measured
from seqloom.report.needs import Need, constant, farthest, is_as_fast, is_as_right, is_equal
from seqloom.report.needs import needs as needs_of
from tests.report.making import comparison
from tests.report.reading import read as html_of

SHARED = {
    **{
        "preset": "tiny",
        "changes": ["training.batches=3"],
        "seeds": 1,
        "paired": False,
        "batches": 3,
        "stretch": 1,
        "batch": 4,
        "context": 16,
        "probe_batches": 1000,
    },
    **{"text": "a hundred books", "date": "2026-11-21", "commit": "abc1234", "machine": "2 cores"},
    "command": "seqloom compare --all --out all",
}
NUMBERS = ("held-out loss", "ms a step", "ms a token at 128", "ms a token at 65,536", "state bytes at 128",
           "state bytes at 65,536", "mqar right")  # fmt: skip
ROWS = {
    "attention": (4.000, 90.0, 1.0, 30.0, 100, 50_000, 1.0),
    "mamba": (4.015, 80.0, 0.5, 0.5, 70, 70, 0.985),
    "me": (4.070, 40.0, 0.4, 0.52, 100, 50_000, 0.1),
    "rnn": (4.300, 20.0, 0.3, 0.3, 8, 8, 0.2),
    "she": (4.020, 95.0, 0.5, None, 100, None, 0.5),
    "wild": (None,) * len(NUMBERS),
}


def rows(**changes: Any) -> list[dict[str, Any]]:
    return [
        {
            **{"contender": name, "kind": name, **SHARED, **dict(zip(NUMBERS, values, strict=True)), **changes},
            "held-out losses": values[:1] if values[0] is not None else [],
            "limitations": ["swim"] if name == "she" else [],
        }
        for name, values in ROWS.items()
    ]


def measured(made: list[dict[str, Any]]) -> list[Measured]:
    return [Measured.from_row(row) for row in made]


def needs(made: list[dict[str, Any]]) -> list[Need]:
    return needs_of(measured(made))


WANTED = {
    "the lowest loss on held-out text": ["attention", "mamba", "she", "me", "rnn"],
    "the cheapest training step, at nearly the lowest loss": ["me"],
    "the fastest token after 65,536 tokens": ["rnn"],
    "the smallest state": ["rnn"],
    "a state of constant size, and the lowest loss": ["mamba", "rnn"],
    "recall of pairs that were seen once": ["attention", "mamba"],
}


@pytest.mark.parametrize(("need", "names"), WANTED.items())
def test_each_need_is_met_by_its_rule(need: str, names: list[str]) -> None:
    result = {need.name: [row.contender for row in need.taken] for need in needs(rows())}
    assert result[need] == names


def test_needs_at_nearly_the_lowest_loss() -> None:
    near = [need for need in needs(rows()) if need.name.endswith(", at nearly the lowest loss")]
    assert [(each.quantity.heading, [row.contender for row in each.taken]) for each in near] == [
        ("ms a step", ["me"]),
        ("ms a token at 65,536", ["mamba", "me"]),
        ("state bytes at 65,536", ["mamba"]),
    ]
    assert all("within 2% of the lowest held-out loss" in each.rule for each in near)


def test_what_was_not_measured_is_no_need() -> None:
    some = [
        {name: value for name, value in row.items() if "right" not in name and " at " not in name} for row in rows()
    ]
    assert [need.quantity.heading for need in needs(some)] == ["held-out loss", "ms a step"]


def test_the_order_of_the_rows_changes_nothing() -> None:
    turned = {need.name: need.taken for need in needs(rows()[::-1])}
    assert all(turned[need.name] == need.taken for need in needs(rows()))


@pytest.mark.parametrize(
    ("tied", "value", "best", "expected"),
    [
        (is_as_fast, 10.9, 10.0, True),
        (is_as_fast, 11.1, 10.0, False),
        (is_as_right, 0.97, 0.985, True),
        (is_as_right, 0.96, 0.985, False),
        (is_equal, 101, 100, False),
        (is_equal, 100, 100, True),
    ],
)
def test_ties(tied: Callable[[float, float], bool], value: float, best: float, expected: bool) -> None:
    assert tied(value, best) is expected


def seeded(wide: float) -> list[dict[str, Any]]:
    """The rows with three seeds each, `wide` apart; rnn's are a unit apart."""
    result = rows(seeds=3)
    for row in result:
        if row["held-out loss"] is not None:
            apart = 1.0 if row["contender"] == "rnn" else wide
            row["held-out losses"] = [row["held-out loss"] + apart * step for step in (-1, 0, 1)]
    return result


@pytest.mark.parametrize(("wide", "level"), [(0.0001, ["rnn"]), (0.01, ["mamba", "she", "rnn"])])
def test_losses_of_several_seeds_are_tied_where_no_difference_is_significant(wide: float, level: list[str]) -> None:
    first = needs(seeded(wide))[0]
    assert [row.contender for row in first.taken] == ["attention", *level]
    assert not first.one_run


def test_the_length_that_most_mixers_have() -> None:
    assert farthest(measured(rows())) == 65_536
    assert farthest(measured(rows(**{"ms a token at 65,536": None}))) == 128
    assert farthest(measured([{"contender": "me"}])) == 0
    assert [row.contender for row in constant(measured(rows()))] == ["mamba", "rnn"]


@pytest.mark.slow
def test_the_report_shows_what_each_is_best_at(tmp_path: Path) -> None:
    out = comparison(tmp_path, seeds=3)
    html = html_of(page.write(out).read_text(encoding="utf-8"))
    lines = [[cell.text for cell in line.elements] for line in html.one("section", id="needs").all("tr")[1:]]
    by_need = {need: take for need, take, _ in lines}
    whole = json.loads((out / "comparison.json").read_text(encoding="utf-8"))
    state = min(whole["contenders"], key=lambda contender: contender["row"]["state bytes"])
    assert by_need["the smallest state"].startswith(f"{state['name']} ({state['row']['state bytes']:,})")
    assert by_need["the lowest loss on held-out text"].startswith("she (4.1")
    assert "the fastest generated token" in by_need
    assert "one run" not in html.one("section", id="needs").text
    assert lines[1][2] == "least ms a step among those within 2% of the lowest held-out loss"


@pytest.mark.slow
def test_a_comparison_of_one_has_no_needs(tmp_path: Path) -> None:
    made = comparison(tmp_path)
    whole = json.loads((made / "comparison.json").read_text(encoding="utf-8"))
    whole["contenders"] = whole["contenders"][:1]
    (made / "comparison.json").write_text(json.dumps(whole), encoding="utf-8")
    assert 'href="#needs"' not in page.write(made).read_text(encoding="utf-8")

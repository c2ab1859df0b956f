"""Which mixer for which need: picked by stated rules from made-up rows; the page says what the rows say."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.making import choose
from docs.making.needs import constant, farthest, needs, tied

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


WANTED = {
    "the lowest loss on held-out text": ["attention", "mamba", "she", "me", "rnn"],
    "the cheapest training step, at nearly the lowest loss": ["me"],
    "the fastest token after 65,536 tokens": ["rnn"],
    "the smallest state": ["rnn"],
    "a state of one size, and the lowest loss": ["mamba", "rnn"],
    "recall of pairs that were seen once": ["attention", "mamba"],
}


@pytest.mark.parametrize(("need", "names"), WANTED.items())
def test_each_need_is_met_by_its_rule(need: str, names: list[str]) -> None:
    result = {need.name: [row["contender"] for row in need.taken] for need in needs(rows())}
    assert result[need] == names


def test_needs_at_nearly_the_lowest_loss() -> None:
    near = [need for need in needs(rows()) if need.name.endswith(", at nearly the lowest loss")]
    assert [(each.column, [row["contender"] for row in each.taken]) for each in near] == [
        ("ms a step", ["me"]),
        ("ms a token at 65,536", ["mamba", "me"]),
        ("state bytes at 65,536", ["mamba"]),
    ]
    assert all("within 2% of the lowest held-out loss" in each.rule for each in near)


def test_what_was_not_measured_is_no_need() -> None:
    some = [
        {name: value for name, value in row.items() if "right" not in name and " at " not in name} for row in rows()
    ]
    assert [need.column for need in needs(some)] == ["held-out loss", "ms a step"]


def test_the_order_of_the_rows_changes_nothing() -> None:
    turned = {need.name: need.taken for need in needs(rows()[::-1])}
    assert all(turned[need.name] == need.taken for need in needs(rows()))


@pytest.mark.parametrize(
    ("column", "value", "best", "expected"),
    [
        ("ms a step", 10.9, 10.0, True),
        ("ms a step", 11.1, 10.0, False),
        ("mqar right", 0.97, 0.985, True),
        ("mqar right", 0.96, 0.985, False),
        ("state bytes at 128", 101, 100, False),
        ("state bytes at 128", 100, 100, True),
    ],
)
def test_ties(column: str, value: float, best: float, expected: bool) -> None:
    assert tied({column: value}, {column: best}, column) is expected


def seeded(wide: float) -> list[dict[str, Any]]:
    """The rows with three seeds each, `wide` apart; rnn's are a unit apart."""
    result = rows(seeds=3)
    for row in result:
        if row["held-out loss"] is not None:
            apart = 1.0 if row["contender"] == "rnn" else wide
            row["held-out losses"] = [row["held-out loss"] + apart * step for step in (-1, 0, 1)]
    return result


@pytest.mark.parametrize(("wide", "level"), [(0.0001, ["rnn"]), (0.01, ["mamba", "she", "rnn"])])
def test_losses_of_several_seeds_are_tied_where_no_difference_is_settled(wide: float, level: list[str]) -> None:
    first = needs(seeded(wide))[0]
    assert [row["contender"] for row in first.taken] == ["attention", *level]
    assert not first.observed_once


def test_the_length_that_most_have() -> None:
    assert farthest(rows()) == 65_536
    assert farthest(rows(**{"ms a token at 65,536": None})) == 128
    assert farthest([{"contender": "me"}]) == 0
    assert [row["contender"] for row in constant(rows())] == ["mamba", "rnn"]


def test_the_page(tmp_path: Path) -> None:
    path = tmp_path / "all.jsonl"
    assert choose.page(path) is None
    left_out = {"contender": "gone", **SHARED, "left_out": "dim 6 is not divisible by heads 4"}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows(), {**left_out}]), encoding="utf-8")
    page = choose.page(path)
    assert page is not None
    assert "| **attention** (4.000, observed once); next: mamba (4.015), she (4.020), me (4.070), rnn (4.300) |" in page
    assert "| recall of pairs that were seen once | **attention** (100.0%); tied: mamba (98.5%) |" in page
    assert "| she | swim |" in page
    assert "| gone | be built at this size: dim 6 is not divisible by heads 4 |" in page
    assert "| wild | - | - |" in page
    assert "3 batches of 4 rows of 16 tokens, one seed, a hundred books; 2 cores, commit abc1234" in page
    assert "Each held-out loss was observed once. One seed has no interval and decides nothing" in page
    assert "A training loss is the median over the last 1 batches." in page
    assert "for 1,000 batches at most" in page
    several = choose.page(written(tmp_path, seeded(0.01))) or ""
    assert "from at least 3 seeds, a p below 0.05 after Holm's correction (Welch's procedure)" in several
    assert "| **attention** (4.000); tied: mamba (4.015), she (4.020), rnn (4.300) |" in several


def written(folder: Path, some: list[dict[str, Any]]) -> Path:
    path = folder / "some.jsonl"
    path.write_text("\n".join(map(json.dumps, some)), encoding="utf-8")
    return path


def test_many_ties_are_counted(tmp_path: Path) -> None:
    same = [{**rows()[0], "contender": f"m{at}"} for at in range(10)]
    assert "tied: m1 (90.000), m2 (90.000), m3 (90.000), m4 (90.000), m5 (90.000), m6 (90.000), 3 more" in (
        choose.page(written(tmp_path, same)) or ""
    )


def test_rows_are_those_of_the_comparison(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shared = {name: SHARED[name] for name in choose.SHARED}
    numbers = dict(zip(NUMBERS, ROWS["me"], strict=True))
    comparison: dict[str, Any] = {
        **shared,
        "text": {"description": "a hundred books"},
        "origin": {name: SHARED[name] for name in choose.ORIGIN} | {"more": 1},
        "contenders": [
            {
                "name": "me",
                "kind": "me",
                "row": numbers,
                "spread": {"held-out loss": [4.07]},
                "limitations": ["swim"],
                "samples": [],
            }
        ],
        "left_out": [{"name": "gone", "why": "no room"}],
    }
    (tmp_path / "comparison.json").write_text(json.dumps(comparison))
    monkeypatch.setattr(choose, "store", lambda out, path=tmp_path / "all.jsonl", real=choose.store: real(out, path))
    monkeypatch.setattr("sys.argv", ["choose", str(tmp_path)])
    assert choose.main() == 0
    me, gone = map(json.loads, (tmp_path / "all.jsonl").read_text().splitlines())
    assert me == {
        "contender": "me",
        "kind": "me",
        **SHARED,
        **numbers,
        "held-out losses": [4.07],
        "limitations": ["swim"],
    }
    assert gone == {"contender": "gone", **SHARED, "left_out": "no room"}
    del comparison["left_out"]
    (tmp_path / "comparison.json").write_text(json.dumps(comparison))
    assert choose.main() == 2
    assert "make it with that" in capsys.readouterr().err
    monkeypatch.setattr("sys.argv", ["choose", str(tmp_path / "none")])
    assert choose.main() == 2


def test_the_page_is_of_today() -> None:
    made = choose.page()
    there = choose.PAGE.read_text(encoding="utf-8") if choose.PAGE.is_file() else None
    assert there == made, "make pages"

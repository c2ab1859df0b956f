"""The answer says what the rows support, in each case, and no more."""

import pytest

from seqloom.report.answer import sentences
from seqloom.report.comparison import Column, Comparison, Contender, Origin, Text

Row = tuple[str, str, float | None, float | None]


def made(rows: list[Row], floor: float | None = None, seeds: int = 2) -> Comparison:
    contenders = [
        Contender(name=name, kind=kind, row={"held-out cost": cost, "± held-out": half}, runs=[])
        for name, kind, cost, half in rows
    ]
    return Comparison(
        preset="p", changes=[], seeds=seeds, batches=1, batch=1, context=1, stretch=1,
        origin=Origin(date="d", commit=None, command="c", machine="m"),
        text=Text(description="t", identity="i", held_out_tokens=1, floor=floor),
        columns=[Column(name="held-out cost", unit="", better="lower", meaning="")], contenders=contenders,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("she", "she", 4.0, 0.1), ("a", "attention", 4.1, 0.1)], "Not decided here: she and a are not told apart."),
        ([("she", "she", 4.0, 0.1), ("a", "attention", 5.0, 0.1)], "Here it can: she predicts"),
        ([("a", "attention", 4.0, 0.1), ("she", "she", 5.0, 0.1)], "Not here: a predicts"),
        ([("she", "she", 4.0, None), ("a", "attention", 5.0, 0.1)], "she is below a, but without intervals"),
        ([("she", "she", 4.0, 0.1), ("aft", "aft", 5.0, 0.1)], "no contender has self-attention"),
        ([("a", "attention", 4.0, 0.1)], "every contender has self-attention"),
    ],
)
def test_verdict(rows: list[Row], said: str) -> None:
    assert said in sentences(made(rows))[0]


def test_the_lowest_and_its_neighbours() -> None:
    rows: list[Row] = [
        ("x", "aft", 4.25, 0.1),
        ("she", "she", 4.0, 0.1),
        ("y", "s4", 4.15, 0.1),
        ("z", "s5", 4.1, None),
    ]
    rows += [("a", "attention", 4.5, 0.2), ("none", "s6", None, None)]
    said = " ".join(sentences(made(rows, floor=3.5)))
    assert "The lowest held-out cost is that of she: 4.000 ± 0.100 nats a token." in said
    assert "Its interval overlaps with that of y; z has none." in said
    assert "with self-attention is a, number 5 of 5: 4.500 ± 0.200, 0.500 above the lowest (12.5%)." in said
    assert "she is 0.500 above it." in said


@pytest.mark.parametrize(
    ("rows", "seeds", "said"),
    [
        ([("she", "she", 4.0, None), ("aft", "aft", 4.5, None)], 1, "with one seed there is no interval"),
        ([("she", "she", 4.0, None), ("aft", "aft", 4.5, None)], 2, "she has no interval"),
        ([("she", "she", 4.0, 0.1), ("aft", "aft", 4.5, 0.1)], 2, "overlaps with no other."),
        ([("she", "she", 4.0, 0.1)], 2, "no other contender"),
        ([("a", "attention", 4.0, 0.1), ("aft", "aft", 4.5, 0.1)], 2, "a is itself self-attention."),
    ],
)
def test_cases(rows: list[Row], seeds: int, said: str) -> None:
    assert said in " ".join(sentences(made(rows, seeds=seeds)))


def test_no_costs_no_answer() -> None:
    assert sentences(made([("she", "she", None, None)])) == []

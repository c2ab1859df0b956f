"""Tables 3-7 as text: each formula as written is the formula that is computed, the values are the mixers' prices."""

import itertools
import re

import pytest

from seqloom.analysis.formulas import INFERENCE, TRAINING, FormulaEntry
from seqloom.analysis.tables import TABLE_7
from seqloom_studies.paper.tables import CLOSED, MISPRINTS, format_table, rows, table7

ENTRIES = {(e.table, e.sublayer, e.quantity): e for e in TRAINING + INFERENCE}
SIZES = [(d, t, n) for d, t, n in itertools.product((8, 12, 32), (1, 2, 7, 33), (1, 2, 4)) if d % n == 0]


def value(text: str, d: int, t: int, n: int) -> float:
    """What a formula as it is written comes to."""
    python = text.replace("½", "1/2 ").replace("²", "**2")
    python = re.sub(r"(?<=[\dldtn]) ?(?=[ldtn])", "*", python)
    return float(eval(python, {"__builtins__": {}}, {"d": d, "l": t, "t": t, "n": n}))


@pytest.mark.parametrize("place", ENTRIES, ids=str)
def test_a_written_formula_is_the_formula(place: tuple[int, str, str]) -> None:
    entry: FormulaEntry = ENTRIES[place]
    for sizes in SIZES:
        assert value(CLOSED[place], *sizes) == entry.closed(*sizes)  # type: ignore[index]


def test_every_formula_and_every_misprint_is_there() -> None:
    assert set(CLOSED) == set(ENTRIES)
    marked = {(*place, seed, form) for place, result in MISPRINTS.items() for seed, form, _ in result}
    known = {(*place, seed, form) for place, entry in ENTRIES.items() for seed, form in entry.misprints}
    assert known - marked == {(5, "attention", "add", "000", "closed")}, "which is that of the other version"
    assert marked <= known
    printed = MISPRINTS[5, "attention", "add"][0][2].split("have ")[1]
    for sizes in SIZES:
        assert value(printed, *sizes) == ENTRIES[5, "attention", "add"].printed_form("003", "closed")(*sizes)


@pytest.mark.parametrize("number", [3, 4, 5, 6])
def test_values_are_those_of_seqloom_cost(number: int) -> None:
    result = rows(number)
    assert result
    assert all(row["value"] == row["cost"] for row in result)


def test_table_7_is_the_papers() -> None:
    assert table7() == TABLE_7
    text = format_table(7)
    numbers = [int(each.replace(",", "")) for each in re.findall(r"  ([\d,]+)(?=\s)", text + "\n")]
    assert sorted(numbers) == sorted(number for row in TABLE_7.values() for number in row)
    assert "all 36 numbers are those that the paper prints" in text


@pytest.mark.slow
def test_misprints_stand_where_they_are() -> None:
    assert "405,798,912 here" in format_table(3)
    assert "93,695 here" in format_table(5)
    assert "misprint" not in format_table(4) + format_table(6)

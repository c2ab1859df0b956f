"""The table of docs/swap.md has every mixer, and some of its cells are run again."""

import pytest

pytest.importorskip("transformers")

from seqloom.mixers import kinds
from tests.hf.swap_matrix import BEGIN, END, FAMILY_COLUMNS, PAGE, outcome, taken_over


def rows() -> dict[str, dict[str, str]]:
    """The cells of the table by mixer and family; `copied` is what is taken over."""
    lines = PAGE.read_text().partition(BEGIN)[2].partition(END)[0].strip().splitlines()
    head, _, *body = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    found = {}
    for name, *cells in body:
        by_family = {
            family: cell for group, cell in zip(head[1:-1], cells, strict=False) for family in group.split(", ")
        }
        found[name.strip("`")] = {**by_family, "copied": cells[-1]}
    return found


def test_every_mixer_and_every_family_is_in_the_table() -> None:
    table = rows()
    assert set(table) == set(kinds())
    assert all(row.keys() - {"copied"} == set(FAMILY_COLUMNS) for row in table.values())


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "family"), [("he", "gpt2"), ("retention", "llama"), ("fnet", "bert"), ("gru", "t5")])
def test_a_cell_is_as_it_runs(kind: str, family: str) -> None:
    row = rows()[kind]
    assert outcome(family, kind) == row[family]
    assert taken_over(kind) == row["copied"]

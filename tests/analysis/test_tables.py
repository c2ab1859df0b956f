"""The paper's Tables 3-7 in both printed forms, against the mixers' prices, and their errors (docs/errata.md)."""

import itertools

import pytest
import torch

from seqloom.analysis.formulas import INFERENCE, TRAINING, FormulaEntry
from seqloom.analysis.tables import COLUMNS, TABLE_7, inference, table7, training
from seqloom.core.cost import Cost
from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds

ENTRIES = {f"table {e.table} {e.sublayer} {e.quantity}": e for e in TRAINING + INFERENCE}
SIZES = [(d, T, n) for d, T, n in itertools.product((8, 12, 32), (1, 2, 7, 33), (1, 2, 4)) if d % n == 0]
SUBLAYERS = ("attention", "she", "he", "we", "me")
MISPRINTED = [(name, seed, form) for name, e in ENTRIES.items() for seed, form in e.misprints]


def mixer(sublayer: str, d: int, context: int | None, n: int = 1) -> Mixer:
    with torch.device("meta"):
        return kinds()[sublayer](**({"heads": n} if sublayer == "attention" else {})).build(d, context)


def same(cost: Cost, price: Cost) -> bool:
    return all(getattr(cost, q) == getattr(price, q) for q in ("mul", "add", "div", "exp"))


def test_every_entry_is_in_its_table() -> None:
    assert {(e.table, e.sublayer) for e in TRAINING} == {(3, "attention"), (3, "she"), (4, "he"), (4, "we"), (4, "me")}
    assert {(e.table, e.sublayer) for e in INFERENCE} == {(5, "attention"), (5, "she"), (6, "he"), (6, "we"), (6, "me")}


@pytest.mark.parametrize("name", ENTRIES)
def test_both_forms_agree(name: str) -> None:
    entry = ENTRIES[name]
    assert all(entry.expanded(*sizes) == entry.closed(*sizes) for sizes in SIZES)


@pytest.mark.parametrize(("name", "seed", "form"), MISPRINTED)
def test_misprints_are_wrong(name: str, seed: str, form: str) -> None:
    entry = ENTRIES[name]
    wrong = entry.printed_form(seed, form)
    assert any(wrong(*sizes) != entry.closed(*sizes) for sizes in SIZES)


def test_all_other_entries_are_printed_right() -> None:
    assert set(MISPRINTED) == {
        ("table 3 she mul", "000", "expanded"),
        ("table 5 attention add", "000", "expanded"),
        ("table 5 attention add", "000", "closed"),
        ("table 5 attention add", "003", "closed"),
    }
    for entry in ENTRIES.values():
        for seed, form in itertools.product(("000", "003"), ("expanded", "closed")):
            right = entry.expanded if form == "expanded" else entry.closed
            assert (entry.printed_form(seed, form) is right) == ((seed, form) not in entry.misprints)


@pytest.mark.slow
@pytest.mark.parametrize("sublayer", SUBLAYERS)
def test_tables_are_the_prices(sublayer: str) -> None:
    for d, T, n in SIZES:
        built = mixer(sublayer, d, T, n)
        table = training(sublayer, d, T, n)
        assert same(table, built.cost(T))
        assert table.params == built.cost(T).params == sum(p.numel() for p in built.parameters())
        longer = mixer(sublayer, d, T + 3, n)
        assert same(inference(sublayer, d, T, n), longer.cost(T, per="token"))


@pytest.mark.parametrize("sublayer", SUBLAYERS)
def test_tokens_add_up_to_the_sequence(sublayer: str) -> None:
    for d, T, n in SIZES:
        tokens = [inference(sublayer, d, t, n) for t in range(1, T + 1)]
        assert same(sum(tokens, Cost()), training(sublayer, d, T, n))


def test_table_7() -> None:
    assert table7() == TABLE_7
    prices = [mixer(sublayer, 128, 128, n).cost(128) for sublayer, n in COLUMNS]
    for row, printed in TABLE_7.items():
        assert tuple(getattr(price, row) for price in prices) == printed
    assert sum(len(row) for row in TABLE_7.values()) == 36


def attention_additions() -> FormulaEntry:
    return ENTRIES["table 5 attention add"]


@pytest.mark.parametrize("seed", ["000", "003"])
def test_table_5_additions_of_attention(seed: str) -> None:
    entry = attention_additions()
    printed = entry.printed_form(seed, "closed")
    positions = range(1, 129)
    assert sum(printed(128, t, 32) for t in positions) == 10_164_160
    assert sum(entry.closed(128, t, 32) for t in positions) == 10_416_128 == TABLE_7["add"][1]
    assert (
        sum(printed(128, t, 1) for t in positions)
        == sum(entry.closed(128, t, 1) for t in positions)
        == TABLE_7["add"][0]
    )
    assert all(printed(d, t, 1) == entry.closed(d, t, 1) for d, t, _ in SIZES)


def test_table_5_additions_term_by_term() -> None:
    entry = attention_additions()
    assert entry.printed_form("003", "expanded") is entry.expanded
    lost = entry.printed_form("000", "expanded")
    for d, t, n in SIZES:
        assert entry.closed(d, t, n) - lost(d, t, n) == (t - 1) * n  # the sums of the softmax


def test_table_3_multiplications_of_she() -> None:
    entry = ENTRIES["table 3 she mul"]
    assert entry.printed_form("000", "expanded")(128, 128, 1) == 405_798_912
    assert entry.printed_form("000", "closed")(128, 128, 1) == TABLE_7["mul"][2]
    assert entry.printed_form("003", "expanded")(128, 128, 1) == TABLE_7["mul"][2]


def test_he_has_the_parameters_of_attention_only_where_length_is_dimension() -> None:
    assert training("he", 128, 128).params == training("attention", 128, 128).params == 65_536
    assert (training("he", 128, 1024).params, training("attention", 128, 1024).params) == (180_224, 65_536)
    assert training("he", 128, 64).params < training("attention", 128, 64).params
    assert training("she", 1024, 1024).params == 1_075_838_976


PATHS = {
    "attention": "multiplication - cumulation - multiplication - cumulation - division - exponentiation - cumulation - "
    "division - multiplication - cumulation - multiplication - cumulation",
    "she": "multiplication - cumulation - multiplication - multiplication - cumulation",
    "me": "multiplication - cumulation",
}
"""section 7 of the paper, word for word"""


@pytest.mark.parametrize("sublayer", PATHS)
def test_critical_path_is_the_papers(sublayer: str) -> None:
    for per in ("sequence", "token"):
        assert " - ".join(mixer(sublayer, 128, 128).cost(128, per=per).path) == PATHS[sublayer]

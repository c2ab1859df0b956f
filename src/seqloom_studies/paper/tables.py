"""Tables 3-7 as text: the formulas, their values here, and the paper's misprints.

    d  dimension     l  length of a training sequence     t  position of a token     n  heads of attention

The formulas are those of `analysis.formulas`; `CLOSED` writes them as the paper does. The values are what
`seqloom cost` computes for the mixers. Source: the Extractor paper, section 7; docs/errata.md has what is misprinted.
"""

from typing import Any

import torch

from seqloom.analysis.formulas import INFERENCE, TRAINING, Form, Quantity, Seed, Sublayer
from seqloom.analysis.tables import COLUMNS, TABLE_7
from seqloom.core.cost import Cost
from seqloom.core.table import table
from seqloom.mixers import mixer_config

SIZES = {"d": 128, "l": 128, "t": 128, "n": 32}
"""sizes of Table 1 with 32 heads, at the last token of a window"""
QUANTITIES: dict[str, str] = {
    "mul": "multiplications",
    "add": "additions",
    "div": "divisions",
    "exp": "exponentiations",
    "params": "parameters",
    "total": "arithmetic operations in all",
}
NAMES = {"attention": "self-attention", "she": "SHE", "he": "HE", "we": "WE", "me": "ME"}
CLOSED: dict[tuple[int, Sublayer, Quantity], str] = {
    (3, "attention", "mul"): "l²d + 4ld² + ld",
    (3, "attention", "add"): "l²d + 4ld² - 4ld - ln",
    (3, "attention", "div"): "nl² + nl",
    (3, "attention", "exp"): "½nl² + ½nl",
    (3, "attention", "params"): "4d²",
    (3, "she", "mul"): "½l²d² + 5/2 ld² + ld",
    (3, "she", "add"): "½l²d² + 5/2 ld² - 3ld",
    (3, "she", "params"): "ld² + 2d²",
    (4, "he", "mul"): "½l²d + 3/2 ld + 3ld²",
    (4, "he", "add"): "3ld² + ½l²d - 7/2 ld",
    (4, "he", "params"): "ld + 3d²",
    (4, "we", "mul"): "½l²d + 3/2 ld + 2ld²",
    (4, "we", "add"): "2ld² + ½l²d - 5/2 ld",
    (4, "we", "params"): "ld + 2d²",
    (4, "me", "mul"): "½l²d + ½ld",
    (4, "me", "add"): "½l²d - ½ld",
    (4, "me", "params"): "l",
    (5, "attention", "mul"): "2td + 4d²",
    (5, "attention", "add"): "2td + 4d² - 5d - n",
    (5, "attention", "div"): "2tn",
    (5, "attention", "exp"): "tn",
    (5, "she", "mul"): "td² + 2d² + d",
    (5, "she", "add"): "td² + 2d² - 3d",
    (6, "he", "mul"): "td + 3d² + d",
    (6, "he", "add"): "td + 3d² - 4d",
    (6, "we", "mul"): "td + 2d² + d",
    (6, "we", "add"): "td + 2d² - 3d",
    (6, "me", "mul"): "td",
    (6, "me", "add"): "td - d",
}
HEADINGS = {
    3: "Table 3: training on a sequence of l tokens, self-attention and SHE",
    4: "Table 4: training on a sequence of l tokens, HE, WE and ME",
    5: "Table 5: one more token at position t, self-attention and SHE",
    6: "Table 6: one more token at position t, HE, WE and ME",
    7: "Table 7: a sublayer at d = l = 128, trained on one sequence",
}
MISPRINTS: dict[tuple[int, Sublayer, Quantity], tuple[tuple[Seed, Form, str], ...]] = {
    (3, "she", "mul"): (
        ("000", "expanded", "seed 000, term by term, has d·d·t + d·d + d·d·d for d·d·t + d·d + d + d·d"),
    ),
    (5, "attention", "add"): (
        ("003", "closed", "both versions, summed up, have 2td - tn + t + 4d² - 5d - 1"),
        ("000", "expanded", "seed 000, term by term, leaves out (t-1)n, the sums of the softmax"),
    ),
}
"""the misprinted form, and the version of the text that has it"""


def format_table(number: int) -> str:
    """Table `number`, 3 to 7, as text."""
    return _table7() if number == 7 else _formulas(number)


def rows(number: int) -> list[dict[str, Any]]:
    """Entries of Table `number`, 3 to 6: sublayer, quantity, formula, value at `SIZES`, result of `seqloom cost`."""
    entries = []
    length = "l" if number < 5 else "t"
    for entry in (row for row in TRAINING + INFERENCE if row.table == number):
        key = (number, entry.sublayer, entry.quantity)
        entries.append({
            "sublayer": NAMES[entry.sublayer],
            "quantity": QUANTITIES[entry.quantity],
            "formula": CLOSED[key],
            "value": entry.closed(SIZES["d"], SIZES[length], SIZES["n"]),
            "cost": int(getattr(_price(entry.sublayer, SIZES["n"], length == "t"), entry.quantity)),
            "misprints": [
                f"{note}: {entry.printed_form(seed, form)(SIZES['d'], SIZES[length], SIZES['n']):,}"
                for seed, form, note in MISPRINTS.get(key, ())
            ],
        })  # fmt: skip
    return entries


def table7() -> dict[str, tuple[int, ...]]:
    """The results of `seqloom cost` for the columns of Table 7, by the name of the row."""
    prices = [_price(sublayer, heads, False) for sublayer, heads in COLUMNS]
    return {row: tuple(int(getattr(price, row)) for price in prices) for row in TABLE_7}


def _formulas(number: int) -> str:
    """One of the Tables 3 to 6: formulas, their values, the mixers' prices, and the misprints below."""
    entries = rows(number)
    sizes = ", ".join(f"{name} = {value}" for name, value in SIZES.items() if number > 4 or name != "t")
    head = ("sublayer", "number of", "formula", f"at {sizes}", "seqloom cost")
    body = table(
        head, [tuple(row[name] for name in ("sublayer", "quantity", "formula", "value", "cost")) for row in entries]
    )
    misprints = [
        f"misprint ({row['sublayer']}, {row['quantity']}): {misprint} here"
        for row in entries
        for misprint in row["misprints"]
    ]
    return "\n".join([HEADINGS[number], "", body, *([""] if misprints else []), *misprints])


def _table7() -> str:
    """Table 7 by the mixers' prices, and below it the numbers that the paper prints differently."""
    names = [f"{NAMES[name]}, {heads} {'head' if heads == 1 else 'heads'}" if name == "attention" else NAMES[name]
             for name, heads in COLUMNS]  # fmt: skip
    prices = table7()
    body = table(("number of", *names), [(QUANTITIES[row], *prices[row]) for row in TABLE_7])
    misprints = [
        f"{QUANTITIES[row]}, {name}: the paper prints {printed:,}"
        for row, line in TABLE_7.items()
        for name, value, printed in zip(names, prices[row], line, strict=True)
        if value != printed
    ]
    no_misprints = (
        "all 36 numbers are those that the paper prints; parameters of HE equal attention's only because l = d"
    )
    return "\n".join([HEADINGS[7], "", body, "", *(misprints or [no_misprints])])


def _price(sublayer: Sublayer, heads: int, token: bool) -> Cost:
    settings = {"heads": heads} if sublayer == "attention" else {}
    with torch.device("meta"):
        mixer = mixer_config({"kind": sublayer, **settings}).build(SIZES["d"], SIZES["l"])
    return mixer.cost(SIZES["t"], "token") if token else mixer.cost(SIZES["l"])
